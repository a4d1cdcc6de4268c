// Command chat is an example: a chat with a model whose answers are streams. Words are
// appended as the model makes them; pages follow, may be reloaded in the middle of an
// answer, open in several tabs, and stop it. The model is built in and needs no key.
//
//	go run ./examples/chat
//
// It brings a server of its own, which keeps everything in ./chat-data. With -ds it
// uses one that is running, and the environment's DS_TOKEN there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"durablestreams"
	"durablestreams/client"
)

// grace is how long requests may take to end when the program stops.
const grace = 5 * time.Second

// options say what run does.
type options struct {
	listen string
	ds     string                  // URL of the streams of a running server
	data   string                  // directory of a server of its own, without ds
	own    *durablestreams.Options // of that; may be nil
	model  func(ctx context.Context, prompt string) words
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8650", "`address` of the page")
	flag.StringVar(&o.data, "data", "chat-data", "`directory` for the streams")
	flag.StringVar(&o.ds, "ds", "", "`URL` of the streams of a running server, instead of one of its own")
	pace := flag.Duration("pace", 60*time.Millisecond, "`time` that the model takes for a word")
	flag.Parse()
	o.model = func(ctx context.Context, prompt string) words { return answer(ctx, prompt, *pace) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and says where on out.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	page, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	defer page.Close()
	root := o.ds
	if root == "" {
		var stop func() error
		if root, stop, err = openStreams(o.data, o.own); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	streams, err := client.New(root, &client.Options{Token: token, GiveUpAfter: time.Minute})
	if err != nil {
		return err
	}
	c := &chat{streams: streams, model: o.model}
	if err := c.recover(ctx); err != nil {
		return fmt.Errorf("streams at %s: %w", streams.URL(), err)
	}
	handler, err := routes(ctx, c, root)
	if err != nil {
		return err
	}
	live, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: grace, BaseContext: func(net.Listener) context.Context { return live }}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(page) }()
	fmt.Fprintf(out, "chat     http://%s/\nstreams  %s\n", page.Addr(), streams.URL())
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	leave() // pages that wait for more come back to whoever is there next
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, server.Shutdown(finish))
	c.answers.Wait() // they have seen ctx end, and close what they have begun
	return err
}

// openStreams starts a server of streams for this machine.
func openStreams(dir string, opts *durablestreams.Options) (root string, stop func() error, err error) {
	s, err := durablestreams.Open(dir, opts)
	if err != nil {
		return "", nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, s.Shutdown(context.Background()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	return "http://" + ln.Addr().String() + s.Root(), func() error { cancel(); return <-ended }, nil
}

// token is what the server of -ds may want to see.
func token(context.Context) (string, error) { return os.Getenv("DS_TOKEN"), nil }
