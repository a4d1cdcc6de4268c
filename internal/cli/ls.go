package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"durablestreams/client"
	"durablestreams/internal/manage"
)

// lsCommand is "ds ls".
type lsCommand struct {
	URL      string `group:"server" name:"url" default:"http://127.0.0.1:8642/durable-streams/v1/stream" placeholder:"${default}" help:"The server's streams. It has to be a ds that serves its page there (ds serve --page=read-only)."`
	AdminURL string `group:"server" name:"admin-url" placeholder:"http://127.0.0.1:8643" help:"Ask the admin address of a ds instead. Default: for the default URL, the default one, if there is no list at the URL."`
	Token    string `group:"server" secret:"" placeholder:"TOKEN" help:"Bearer token. In the environment other users of this machine do not see it."`
	Prefix   string `arg:"" optional:"" help:"Start of the paths of the streams. Default: all streams."`
	Long     bool   `short:"l" help:"Show size, state, times and tail as well, as ds streams list does."`
	JSON     bool   `name:"json" help:"Each stream as a JSON object on a line."`
}

// Help is the text below the summary.
func (lsCommand) Help() string {
	return `Lists the paths of streams, in order. The protocol has no listing: this asks what ds has besides, beside the streams or
on its admin address. There it shows what the token may read, here all streams.

Examples:

    ds ls
    ds ls orders/ -l
    ds ls tests/ | xargs ds rm`
}

// Run lists.
func (c *lsCommand) Run(ctx context.Context, env *Env) error {
	show := func(line json.RawMessage) error {
		if c.JSON {
			return writeLine(env.Stdout, line)
		}
		if c.Long {
			return tableRow(env, line)
		}
		var s manage.Stream
		if err := json.Unmarshal(line, &s); err != nil {
			return fmt.Errorf("the server does not list streams: %w", err)
		}
		if s.Deleted {
			return nil // there is nothing to read
		}
		_, err := fmt.Fprintln(env.Stdout, harmless(s.Path))
		return err
	}
	headed := false
	yield := func(line json.RawMessage) error {
		if c.Long && !c.JSON && !headed {
			headed = true
			if err := tableHead(env); err != nil {
				return err
			}
		}
		return show(line)
	}
	if c.AdminURL != "" {
		api, err := newManageAPI("--admin-url", c.AdminURL, "/api/v1", c.Token)
		if err != nil {
			return err
		}
		return api.list(ctx, c.Prefix, "", 0, yield)
	}
	beside, err := newManageAPI("--url", c.URL, "/__ds/api/v1", c.Token)
	if err != nil {
		return err
	}
	if err = beside.list(ctx, c.Prefix, "", 0, yield); !missing(err) {
		return err
	}
	if c.URL == defaultStreams {
		admin := &manageAPI{defaultAdmin + "/api/v1", c.Token}
		err := admin.list(ctx, c.Prefix, "", 0, yield)
		if _, away := errors.AsType[*client.NetworkError](err); !away {
			return err
		}
	}
	return fmt.Errorf("the protocol has no listing, and this server shows none at %s: a ds started with --page=read-only does, and so does its admin address, see --admin-url", c.URL)
}

// The addresses of a server that was started without any.
const (
	defaultStreams = "http://127.0.0.1:8642/durable-streams/v1/stream"
	defaultAdmin   = "http://127.0.0.1:8643"
)

// missing reports whether a server has no list at an address. Those that are not ours
// may take it for the path of a stream.
func missing(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return errors.Is(err, errNoAPI) || ok && (e.Status == 400 || e.Status == 404 || e.Status == 405)
}
