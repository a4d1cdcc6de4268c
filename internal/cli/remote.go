package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"durablestreams/client"
	"durablestreams/stream"
)

// remote is what commands have in common that are clients of a server.
type remote struct {
	URL      string        `group:"server" name:"url" default:"http://127.0.0.1:8642/durable-streams/v1/stream" placeholder:"${default}" help:"The server's streams. Any server of the protocol will do."`
	Token    string        `group:"server" secret:"" placeholder:"TOKEN" help:"Bearer token. In the environment other users of this machine do not see it."`
	RetryFor time.Duration `group:"server" placeholder:"30s" help:"How long to try again while the server cannot be reached or is busy. Default: not at all, but for ever where a command says so."`
}

// streamHelp explains the argument that names a stream.
const streamHelp = "Path of the stream below --url, or its whole URL."

// offset is a place in a stream. On a command line "-1" is its start and no flag.
type offset client.Offset

// Decode implements kong.MapperValue.
func (o *offset) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	text, ok := token.Value.(string)
	if !ok || text == "" || strings.HasPrefix(text, "-") && text != string(client.Start) {
		return errors.New("want an offset, -1 or now")
	}
	*o = offset(text)
	return nil
}

// client makes a client for the streams below --url. forever tries without an end
// unless --retry-for says otherwise.
func (r *remote) client(env *Env, root string, forever bool) (*client.Client, error) {
	o := &client.Options{GiveUpAfter: r.RetryFor, OnRetry: func(err error, delay time.Duration) {
		fmt.Fprintf(env.Stderr, "ds: %v; trying again in %v\n", err, delay.Round(time.Millisecond))
	}}
	if o.GiveUpAfter == 0 && !forever {
		o.GiveUpAfter = -1
	}
	if r.Token != "" {
		o.Token = func(context.Context) (string, error) { return r.Token, nil }
	}
	c, err := client.New(root, o)
	if err != nil {
		return nil, usageError{fmt.Errorf("--url: %w", err)}
	}
	return c, nil
}

// stream finds the stream that an argument names.
func (r *remote) stream(env *Env, name string, forever bool) (*client.Stream, error) {
	root := r.URL
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		u, err := url.Parse(name)
		if err != nil {
			return nil, usageError{errors.New("the URL of the stream is none")} // its text may hold a password
		}
		root = (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String()
	}
	c, err := r.client(env, root, forever)
	if err != nil {
		return nil, err
	}
	return c.Stream(name), nil
}

// codeOf is the exit code for an error. docs/cli.md lists them.
func codeOf(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*client.NetworkError](err); ok {
		return exitUnavailable
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return exitError
	case e.Status == 404 || e.Status == 410:
		return exitNotFound
	case e.Status == 409 || e.Kind == stream.ProducerFenced:
		return exitConflict
	case e.Status == 401 || e.Status == 403:
		return exitForbidden
	case e.Status == 408 || e.Status == 429 || e.Status > 501:
		return exitUnavailable
	}
	return exitError
}

// streamReport is a stream in the output of --json.
type streamReport struct {
	URL         string     `json:"url"`
	ContentType string     `json:"content_type,omitempty"`
	Offset      string     `json:"offset"` // of the tail
	Closed      bool       `json:"closed"`
	TTLSeconds  int64      `json:"ttl_seconds,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Created     *bool      `json:"created,omitempty"`
}

func newStreamReport(s *client.Stream, i client.Info) streamReport {
	r := streamReport{URL: s.URL(), ContentType: i.ContentType, Offset: string(i.Tail), Closed: i.Closed, TTLSeconds: int64(i.TTL / time.Second)}
	if !i.ExpiresAt.IsZero() {
		r.ExpiresAt = &i.ExpiresAt
	}
	return r
}

// print writes the report, as JSON or for people.
func (r *streamReport) print(env *Env, asJSON bool) error {
	if asJSON {
		return writeJSON(env.Stdout, r)
	}
	state := "open"
	if r.Closed {
		state = "closed"
	}
	rows := [][2]string{{"stream", r.URL}, {"type", r.ContentType}, {"tail", r.Offset}, {"state", state}}
	if r.TTLSeconds > 0 {
		rows = append(rows, [2]string{"ttl", (time.Duration(r.TTLSeconds) * time.Second).String()})
	}
	if r.ExpiresAt != nil {
		rows = append(rows, [2]string{"expires", r.ExpiresAt.Format(time.RFC3339)})
	}
	if r.Created != nil && !*r.Created {
		rows = append(rows, [2]string{"", "it was there already"})
	}
	return printRows(env, rows)
}

// printRows writes names and values, the names dimmed on a terminal.
func printRows(env *Env, rows [][2]string) error {
	dim, normal := env.style("\x1b[2m"), env.style("\x1b[0m")
	for _, row := range rows {
		if _, err := fmt.Fprintf(env.Stdout, "%s%-8s%s %s\n", dim, row[0], normal, harmless(row[1])); err != nil {
			return err
		}
	}
	return nil
}
