package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"durablestreams/internal/manage"
	"durablestreams/stream"
)

// streamsCommand is "ds streams".
type streamsCommand struct {
	List   streamsListCommand   `cmd:"" help:"List streams."`
	Show   streamsShowCommand   `cmd:"" help:"Show all that is known of a stream without its data."`
	Delete streamsDeleteCommand `cmd:"" help:"Delete all streams whose path begins with a prefix."`
	Totals streamsTotalsCommand `cmd:"" help:"Count streams."`
}

// streamsListCommand is "ds streams list".
type streamsListCommand struct {
	operated
	Prefix string `arg:"" optional:"" help:"Start of their paths. Default: all streams."`
	After  string `placeholder:"PATH" help:"Begin behind this path."`
	Limit  int    `placeholder:"N" help:"List no more than that many. Default: all."`
	JSON   bool   `name:"json" help:"Each stream as a JSON object on a line."`
}

// Help is the text below the summary.
func (streamsListCommand) Help() string {
	return `Lists streams in the order of their paths: size, state, TTL or end, creation, last write, tail and path. Streams
that were deleted and are kept for their forks are among them. However many there are, they are asked for page by page.

Examples:

    ds streams list
    ds streams list orders/ --limit 20
    ds streams list --json | jq -r 'select(.closed) | .path'`
}

// Run lists.
func (c *streamsListCommand) Run(ctx context.Context, env *Env) error {
	if c.Limit < 0 {
		return usageError{errors.New("--limit: want 1 or more")}
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	if !c.JSON {
		if err := tableHead(env); err != nil {
			return err
		}
	}
	return api.list(ctx, c.Prefix, c.After, c.Limit, func(s json.RawMessage) error {
		if c.JSON {
			return writeLine(env.Stdout, s)
		}
		return tableRow(env, s)
	})
}

// tableLine has the path at its end: how long paths are is known of none before it came.
const tableLine = "%10s  %-7s  %-20s  %-20s  %-20s  %-33s  %s\n"

func tableHead(env *Env) error {
	dim, normal := env.style("\x1b[2m"), env.style("\x1b[0m")
	_, err := fmt.Fprintf(env.Stdout, dim+tableLine+normal, "SIZE", "STATE", "ENDS", "CREATED", "LAST WRITE", "TAIL", "PATH")
	return err
}

func tableRow(env *Env, line json.RawMessage) error {
	var s manage.Stream
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("the server does not list streams: %w", err)
	}
	ends := "never"
	switch {
	case s.TTLSeconds != nil:
		ends = "unused for " + ttl(*s.TTLSeconds)
	case s.ExpiresAt != "":
		ends = s.ExpiresAt
	case s.Damaged:
		ends = ""
	}
	_, err := fmt.Fprintf(env.Stdout, tableLine, quantity(float64(s.Bytes)), stateOf(&s), harmless(ends), second(s.Created), second(s.LastWrite), harmless(s.Offset), harmless(s.Path))
	return err
}

func stateOf(s *manage.Stream) string {
	switch {
	case s.Damaged:
		return "damaged"
	case s.Deleted:
		return "deleted"
	case s.Closed:
		return "closed"
	}
	return "open"
}

// ttl writes a number of seconds, which may be more than a Duration takes.
func ttl(seconds uint64) string {
	if seconds > 1<<32 {
		return fmt.Sprintf("%d s", seconds)
	}
	return (time.Duration(seconds) * time.Second).String()
}

// second cuts a time of the API to seconds.
func second(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return harmless(text)
	}
	return t.UTC().Format(time.RFC3339)
}

// streamsShowCommand is "ds streams show".
type streamsShowCommand struct {
	operated
	Stream string `arg:"" help:"Path of the stream, as it stands in URLs."`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (streamsShowCommand) Help() string {
	return `Shows a stream as an operator sees it: also its size, when it was made and written to last, where it was forked
from and how many forks it has, and one that was deleted and is kept for its forks. That does not count as a use of it.

Examples:

    ds streams show orders/7
    ds streams show orders/7 --json | jq .bytes`
}

// Run shows.
func (c *streamsShowCommand) Run(ctx context.Context, env *Env) error {
	path, err := stream.ParsePath(c.Stream)
	if err != nil {
		return usageError{err}
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := api.ask(ctx, "show", http.MethodGet, "/streams/"+string(path), nil, &answer); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, answer)
	}
	var s manage.Stream
	if err := json.Unmarshal(answer, &s); err != nil {
		return fmt.Errorf("the server does not show streams: %w", err)
	}
	return printRows(env, streamRows(&s))
}

func streamRows(s *manage.Stream) (rows [][2]string) {
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, value})
		}
	}
	add("stream", s.Path)
	add("type", s.ContentType)
	add("tail", s.Offset)
	add("size", quantity(float64(s.Bytes)))
	add("state", stateOf(s))
	if s.TTLSeconds != nil {
		add("ttl", ttl(*s.TTLSeconds))
	}
	add("expires", s.ExpiresAt)
	add("ends", s.EndsAt)
	add("created", s.Created)
	add("written", s.LastWrite)
	if s.ForkedFrom != "" {
		add("fork of", s.ForkedFrom+" at "+s.ForkOffset)
	}
	if s.Forks > 0 {
		add("forks", fmt.Sprint(s.Forks))
	}
	return rows
}

// streamsTotalsCommand is "ds streams totals".
type streamsTotalsCommand struct {
	operated
	Prefix string `arg:"" optional:"" help:"Start of the paths of what is counted. Default: all streams."`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (streamsTotalsCommand) Help() string {
	return `Counts streams and their bytes, and of them those that are closed, forks, deleted but kept for their forks, damaged, or
about to end within the hour if nobody uses them. The server looks at each; a count of all streams may be some seconds old.

Examples:

    ds streams totals
    ds streams totals orders/ --json | jq .bytes`
}

// Run counts.
func (c *streamsTotalsCommand) Run(ctx context.Context, env *Env) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	t, err := api.totals(ctx, c.Prefix)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, t)
	}
	return printRows(env, [][2]string{{"streams", fmt.Sprint(t.Streams)}, {"size", quantity(float64(t.Bytes))}, {"closed", fmt.Sprint(t.Closed)}, {"forks", fmt.Sprint(t.Forks)},
		{"deleted", fmt.Sprint(t.Deleted)}, {"damaged", fmt.Sprint(t.Damaged)}, {"expiring", fmt.Sprint(t.Expiring)}, {"at", t.At}})
}

// streamsDeleteCommand is "ds streams delete".
type streamsDeleteCommand struct {
	operated
	Prefix string `arg:"" help:"Start of the paths of what is deleted, letter by letter: jobs/1 is also that of jobs/10. End it with a slash to mean a folder."`
	All    bool   `help:"Needed for an empty prefix, which is every stream of the server."`
	DryRun bool   `help:"Only say how much it would be."`
	Yes    bool   `short:"y" help:"Do not ask. Needed where nobody can answer."`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (streamsDeleteCommand) Help() string {
	return `Deletes all streams whose path begins with a prefix, with all their data. Forks elsewhere keep what they inherited. What is
created meanwhile may stay. When the command is interrupted, what was deleted is deleted; the same command goes on.

Examples:

    ds streams delete tests/ --dry-run
    ds streams delete tests/ --yes`
}

// deletionReport is what --json gives.
type deletionReport struct {
	Prefix  string `json:"prefix"`
	Streams int    `json:"streams"`
	Bytes   uint64 `json:"bytes"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// Run deletes.
func (c *streamsDeleteCommand) Run(ctx context.Context, env *Env) error {
	if c.Prefix == "" && !c.All {
		return usageError{errors.New("an empty prefix is every stream of the server; --all confirms that")}
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	if c.DryRun || !c.Yes {
		t, err := api.totals(ctx, c.Prefix)
		if err != nil {
			return err
		}
		there := deletionReport{c.Prefix, t.Streams - t.Deleted, t.Bytes, c.DryRun}
		if c.DryRun || there.Streams == 0 {
			return there.print(env, c.JSON, "would delete")
		}
		if err := confirm(env, there.String(), "--yes confirms it, --dry-run only tells"); err != nil {
			return err
		}
	}
	done, err := c.run(ctx, api, env)
	if err != nil {
		return fmt.Errorf("%w (%d streams were deleted; the same command goes on)", err, done.Streams)
	}
	return done.print(env, c.JSON, "deleted")
}

// confirm asks who is at the terminal whether to delete that; hint is for where nobody is.
func confirm(env *Env, what, hint string) error {
	if !isTerminal(env.Stdin) {
		return usageError{fmt.Errorf("this would delete %s; %s", what, hint)}
	}
	fmt.Fprintf(env.Stderr, "Delete %s? [y/N] ", what)
	answer, err := bufio.NewReader(env.Stdin).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(env.Stderr)
	}
	if answer := strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was deleted")
	}
	return nil
}

// run deletes page by page.
func (c *streamsDeleteCommand) run(ctx context.Context, api *manageAPI, env *Env) (sum deletionReport, err error) {
	if isTerminal(env.Stderr) {
		defer fmt.Fprint(env.Stderr, "\r\x1b[K")
	}
	sum.Prefix = c.Prefix
	query := url.Values{"prefix": {c.Prefix}, "limit": {fmt.Sprint(listPage)}}
	if c.All && c.Prefix == "" {
		query.Set("all", "true")
	}
	for {
		var step manage.Deletion
		if err := api.ask(ctx, "delete", http.MethodDelete, "/streams", query, &step); err != nil {
			return sum, err
		}
		sum.Streams += step.Streams
		sum.Bytes += step.Bytes
		if step.Next == "" {
			return sum, nil
		}
		query.Set("after", step.Next)
		if isTerminal(env.Stderr) {
			fmt.Fprintf(env.Stderr, "\r\x1b[K%d streams are deleted", sum.Streams)
		}
	}
}

func (r *deletionReport) String() string {
	whose := "of this server"
	if r.Prefix != "" {
		whose = fmt.Sprintf("whose path begins with %q", r.Prefix)
	}
	return fmt.Sprintf("%d streams %s, %s", r.Streams, whose, quantity(float64(r.Bytes)))
}

func (r *deletionReport) print(env *Env, asJSON bool, what string) error {
	if asJSON {
		return writeJSON(env.Stdout, r)
	}
	_, err := fmt.Fprintf(env.Stdout, "%s %s\n", what, r)
	return err
}
