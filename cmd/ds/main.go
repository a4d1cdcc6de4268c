// Command ds serves Durable Streams and looks after their data; run it without
// arguments to see what it can do.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"durablestreams/internal/cli"
)

func main() { os.Exit(run()) }

// run ends cleanly at the first signal and, since that gives the signals back,
// at once at the second. A terminal that goes may send SIGHUP twice, so that one
// is kept; under nohup it stays ignored. A reader of stdout or stderr that has
// gone costs what is written to it and not the process.
//
// net/http's client prints on the standard logger what receivers of webhooks send
// unasked. Nothing of ours goes there, and they have no business in the log.
func run() int {
	log.SetOutput(io.Discard)
	signal.Ignore(syscall.SIGPIPE)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], &cli.Env{LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
}
