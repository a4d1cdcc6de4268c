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
// at once at the second. SIGHUP asks for a reload, unless it came because the terminal
// has gone: then it ends the process. Under nohup it stays ignored. A reader of stdout
// or stderr that has gone costs what is written to it and not the process.
//
// net/http's client prints on the standard logger what receivers of webhooks send
// unasked. Nothing of ours goes there, and they have no business in the log.
func run() int {
	log.SetOutput(io.Discard)
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	ctx, end := context.WithCancel(ctx)
	defer end()
	env := &cli.Env{LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if !signal.Ignored(syscall.SIGHUP) {
		env.Reload = hangups(end)
	}
	return cli.Run(ctx, os.Args[1:], env)
}

// hangups passes SIGHUP on. Two that come together are one.
func hangups(end func()) <-chan struct{} {
	heard, reload := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(heard, syscall.SIGHUP)
	terminal := hasTerminal()
	go func() {
		for range heard {
			if terminal && !hasTerminal() {
				end()
			}
			select {
			case reload <- struct{}{}:
			default:
			}
		}
	}()
	return reload
}

// hasTerminal reports whether the process has a terminal that is still there.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}
