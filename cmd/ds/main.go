// Command ds serves Durable Streams and looks after their data; run it without
// arguments to see what it can do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"durablestreams/internal/cli"
)

func main() { os.Exit(run()) }

// run ends cleanly at the first signal and, since that gives the signals back,
// at once at the second.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], &cli.Env{LookupEnv: os.LookupEnv, Stdout: os.Stdout, Stderr: os.Stderr})
}
