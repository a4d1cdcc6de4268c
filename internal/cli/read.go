package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"durablestreams/client"
	"durablestreams/internal/wire"
)

// readCommand is "ds read".
type readCommand struct {
	remote
	Stream string `arg:"" help:"${stream}"`
	From   offset `default:"-1" placeholder:"OFFSET" help:"Where to begin: an offset, -1 for the start, now for the tail. Default: the start."`
	Raw    bool   `help:"On a terminal, too, write the bytes as they are."`
	JSON   bool   `name:"json" help:"Write each batch as a JSON object on a line, with the offset behind it."`
}

// Help is the text below the summary.
func (readCommand) Help() string {
	return `Writes what is in a stream now: its bytes, or of a stream of JSON each message on a line. On a terminal, control
characters are shown and not sent.

Examples:

    ds read page > page.html
    ds read orders | jq .state
    ds read orders --from "$(ds head chat --json | jq -r .offset)"
    ds read orders --json | tail -1 | jq -r .offset`
}

// Run reads.
func (c *readCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.stream(env, c.Stream, false)
	if err != nil {
		return err
	}
	w := newBatchWriter(env, c.JSON, c.Raw)
	defer w.progress.end()
	for b, err := range s.Read(ctx, &client.ReadOptions{Offset: client.Offset(c.From)}) {
		if err == nil {
			err = w.write(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tailCommand is "ds tail".
type tailCommand struct {
	remote
	Stream string `arg:"" help:"${stream}"`
	Follow bool   `short:"f" default:"true" negatable:"" help:"Wait for more until the stream is closed. It is the default; --no-follow ends at the tail."`
	From   offset `default:"now" placeholder:"OFFSET" help:"Where to begin: an offset, -1 for the start, now for the tail. Default: now."`
	State  string `placeholder:"FILE" help:"Keep the offset in this file, and begin there if it is there."`
	Live   string `enum:"auto,sse,long-poll" default:"auto" placeholder:"${default}" help:"How to wait: sse, long-poll, or auto, which is long-poll for text (SSE does not keep its line ends apart)."`
	Raw    bool   `help:"On a terminal, too, write the bytes as they are."`
	JSON   bool   `name:"json" help:"Write each batch as a JSON object on a line, with the offset behind it."`
}

// Help is the text below the summary.
func (tailCommand) Help() string {
	return `Writes what comes into a stream, as ds read does, until the stream is closed or ds gets a signal. While the
server cannot be reached it tries again, for ever unless --retry-for is given, and goes on without a gap.

The state file is replaced after what it stands for has been written to stdout. After a crash of ds between the two,
that is written again.

Examples:

    ds tail -f build/17 --from -1
    ds tail orders --state orders.state >> orders.ndjson
    ds tail orders --json | while read -r batch; do echo "$batch" | jq .messages; done`
}

// Run follows.
func (c *tailCommand) Run(ctx context.Context, env *Env) error {
	s, err := c.stream(env, c.Stream, true)
	if err != nil {
		return err
	}
	o := &client.ReadOptions{Offset: client.Offset(c.From), Live: map[string]client.Live{"auto": client.Follow, "sse": client.SSE, "long-poll": client.LongPoll}[c.Live]}
	if !c.Follow {
		o.Live = client.CatchUp
	}
	var state *stateFile
	if c.State != "" {
		if state, err = openState(c.State, s.URL()); err != nil {
			return err
		}
		if state.Closed {
			return nil
		}
		if state.Offset != "" {
			o.Offset = state.Offset
		}
	}
	w := newBatchWriter(env, c.JSON, c.Raw)
	defer w.progress.end()
	for b, err := range s.Read(ctx, o) {
		if ctx.Err() != nil {
			return nil // a signal is how this command ends
		}
		if err == nil {
			err = w.write(b)
		}
		if err == nil && state != nil {
			err = state.save(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batchWriter writes batches to stdout.
type batchWriter struct {
	w        io.Writer
	json     bool
	safe     bool // a person looks at it
	progress *progress
}

func newBatchWriter(env *Env, asJSON, raw bool) *batchWriter {
	return &batchWriter{w: env.Stdout, json: asJSON, safe: !raw && isTerminal(env.Stdout), progress: env.progress("read")}
}

func (w *batchWriter) write(b client.Batch) error {
	w.progress.add(len(b.Data))
	if w.json {
		return w.writeReport(b)
	}
	if len(b.Data) == 0 {
		return nil
	}
	text := b.Data
	if wire.IsJSON(b.ContentType) {
		var err error
		if text, err = messageLines(b.Data); err != nil {
			return fmt.Errorf("the messages before offset %s: %w", b.Offset, err)
		}
	}
	if w.safe {
		text = []byte(harmless(string(text)))
	}
	_, err := w.w.Write(text)
	return err
}

// messageLines gives each message of an array a line.
func messageLines(array []byte) ([]byte, error) {
	var messages []json.RawMessage
	if err := json.Unmarshal(array, &messages); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, m := range messages {
		if err := json.Compact(&b, m); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// batchReport is a batch in the output of --json. Data stand in one of messages,
// text and base64.
type batchReport struct {
	Offset   client.Offset   `json:"offset"`
	UpToDate bool            `json:"up_to_date"`
	Closed   bool            `json:"closed"`
	Messages json.RawMessage `json:"messages,omitempty"`
	Text     string          `json:"text,omitempty"`
	Base64   string          `json:"base64,omitempty"`
}

func (w *batchWriter) writeReport(b client.Batch) error {
	r := batchReport{Offset: b.Offset, UpToDate: b.UpToDate, Closed: b.Closed}
	switch {
	case wire.IsJSON(b.ContentType):
		r.Messages = b.Data
	case wire.IsText(b.ContentType) && utf8.Valid(b.Data):
		r.Text = string(b.Data)
	default:
		r.Base64 = base64.StdEncoding.EncodeToString(b.Data)
	}
	return writeLine(w.w, r)
}

// writeLine writes a value as JSON on one line, without the escapes for HTML.
func writeLine(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
