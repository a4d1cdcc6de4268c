package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"durablestreams/client"
	"durablestreams/internal/wire"
)

// appendCommand is "ds append".
type appendCommand struct {
	remote
	Stream   string   `arg:"" help:"${stream}"`
	Messages []string `arg:"" optional:"" name:"message" help:"What to append. Default: stdin."`
	Lines    bool     `short:"l" help:"Each line of stdin is a message and is sent as it comes; messages of the command line get a line end."`
	Producer string   `placeholder:"ID" help:"With stdin: send each line as the next one of this producer. The same command with the same input goes on where it stopped, and nothing is there twice."`
	Epoch    uint64   `placeholder:"N" help:"Epoch of the producer. A greater one begins anew and fences the runs before."`
	Close    bool     `help:"Close the stream with the last message."`
	JSON     bool     `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (appendCommand) Help() string {
	return `Appends to a stream and prints its new tail. Messages of the command line, and stdin without --lines, are one
request each, exactly as they are. To a stream of JSON each has to be JSON; of an array each element is a message.

With --lines and without --producer an error leaves open whether the lines of the last request are in the stream; it says
how many lines are there for certain. With --producer requests are repeated until they succeed.

Examples:

    ds append orders '{"id":1,"state":"paid"}'
    ds append page < page.html
    make 2>&1 | ds append build/17 --lines --close
    ds append events --producer import-7 < events.ndjson`
}

// Run appends.
func (c *appendCommand) Run(ctx context.Context, env *Env) error {
	switch {
	case len(c.Messages) > 0 && c.Producer != "":
		return usageError{errors.New("--producer: the messages have to come from stdin, a line each")}
	case c.Producer == "" && c.Epoch != 0:
		return usageError{errors.New("--epoch: needs a --producer")}
	}
	s, err := c.stream(env, c.Stream, c.Producer != "")
	if err != nil {
		return err
	}
	var n int
	var last client.Appended
	switch {
	case c.Producer != "":
		n, last, err = c.produce(ctx, env, s)
	case c.Lines && len(c.Messages) == 0:
		n, last, err = c.lines(ctx, env, s)
	default:
		n, last, err = c.bodies(ctx, env, s)
	}
	if err != nil {
		return err
	}
	return printAppended(env, c.JSON, n, last)
}

// printAppended tells where a stream ends now.
func printAppended(env *Env, asJSON bool, n int, last client.Appended) error {
	if asJSON {
		return writeJSON(env.Stdout, map[string]any{"appended": n, "offset": last.Tail, "closed": last.Closed})
	}
	_, err := fmt.Fprintln(env.Stdout, last.Tail)
	return err
}

// bodies appends the messages of the command line, or all of stdin.
func (c *appendCommand) bodies(ctx context.Context, env *Env, s *client.Stream) (n int, last client.Appended, err error) {
	var all [][]byte
	for _, m := range c.Messages {
		if c.Lines {
			m += "\n"
		}
		all = append(all, []byte(m))
	}
	if len(c.Messages) == 0 {
		body, err := io.ReadAll(env.Stdin)
		if err != nil {
			return 0, last, fmt.Errorf("read stdin: %w", err)
		}
		all = append(all, body)
	}
	for i, body := range all {
		o := &client.AppendOptions{Close: c.Close && i == len(all)-1}
		if last, err = s.Append(ctx, body, o); err != nil {
			return n, last, afterLines(err, n, "messages")
		}
		n++
	}
	return n, last, nil
}

// afterLines says what is done for certain when an error ends a command.
func afterLines(err error, n int, what string) error {
	if err == nil || n == 0 {
		return err
	}
	return fmt.Errorf("%w (the first %d %s are in the stream)", err, n, what)
}

const (
	maxLineBatch = 256 << 10 // about how much of the lines that wait goes in one request
	lineRequests = 16        // requests of a producer on their way
)

// inputLine is one line of stdin, with its end, or the error that ends them.
type inputLine struct {
	text []byte
	err  error
}

// readLines passes on the lines of stdin.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine, 1024)
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			text, err := r.ReadBytes('\n')
			if len(text) > 0 {
				select {
				case lines <- inputLine{text: text}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					lines <- inputLine{err: fmt.Errorf("read stdin: %w", err)}
				}
				return
			}
		}
	}()
	return lines
}

// lines appends the lines that are there in one request, then those that have come
// meanwhile.
func (c *appendCommand) lines(ctx context.Context, env *Env, s *client.Stream) (n int, last client.Appended, err error) {
	info, err := s.Head(ctx)
	if err != nil {
		return 0, last, err
	}
	isJSON := wire.IsJSON(info.ContentType)
	show := env.progress("appended")
	defer show.end()
	in := readLines(ctx, env.Stdin)
	last.Tail = info.Tail
	for {
		batch, more, err := gatherLines(ctx, in, isJSON)
		if err != nil {
			return n, last, afterLines(err, n, "lines")
		}
		if len(batch) > 0 {
			body := bytes.Join(batch, nil)
			if isJSON {
				body = append(append([]byte{'['}, bytes.Join(batch, []byte{','})...), ']')
			}
			if last, err = s.Append(ctx, body, nil); err != nil {
				return n, last, afterLines(err, n, "lines")
			}
			n += len(batch)
			show.add(len(body))
		}
		if !more {
			break
		}
	}
	if c.Close {
		last, err = s.Close(ctx)
	}
	return n, last, afterLines(err, n, "lines")
}

// gatherLines waits for a line and takes what else is there.
func gatherLines(ctx context.Context, in <-chan inputLine, isJSON bool) (batch [][]byte, more bool, err error) {
	size := 0
	for {
		var line inputLine
		ok := true
		if len(batch) == 0 {
			select {
			case line, ok = <-in:
			case <-ctx.Done():
				return nil, false, context.Cause(ctx)
			}
		} else {
			select {
			case line, ok = <-in:
			default:
				return batch, true, nil
			}
		}
		switch {
		case !ok:
			return batch, false, nil
		case line.err != nil:
			return nil, false, line.err
		}
		text, err := lineMessage(line.text, isJSON)
		if err != nil {
			return nil, false, err
		}
		if text == nil {
			continue
		}
		batch = append(batch, text)
		if size += len(text); size >= maxLineBatch {
			return batch, true, nil
		}
	}
}

// lineMessage is what a line is in the stream: itself, or one JSON value. It is nil
// for an empty line of JSON.
func lineMessage(line []byte, isJSON bool) ([]byte, error) {
	if !isJSON {
		return line, nil
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil, nil
	}
	if !json.Valid(line) {
		return nil, fmt.Errorf("this line is no JSON: %.60q", line)
	}
	return line, nil
}

// produce appends each line as the producer's next one. The first line is sent
// alone: its answer says up to where an earlier run has come.
func (c *appendCommand) produce(ctx context.Context, env *Env, s *client.Stream) (n int, last client.Appended, err error) {
	info, err := s.Head(ctx)
	if err != nil {
		return 0, last, err
	}
	isJSON := wire.IsJSON(info.ContentType)
	show := env.progress("appended")
	defer show.end()
	var p *client.Producer
	var seq, before uint64 // of the next line; of the first one that is not in the stream
	for line := range readLines(ctx, env.Stdin) {
		if line.err != nil {
			return n, last, line.err
		}
		text, err := lineMessage(line.text, isJSON)
		switch {
		case err != nil:
			return n, last, fmt.Errorf("line %d: %w", seq+1, err)
		case text == nil:
			continue
		case p == nil:
			p, before, err = c.resume(ctx, s, text, info.ContentType)
		case seq >= before:
			err = p.Append(ctx, text)
		}
		if err != nil {
			return n, last, err
		}
		if seq++; seq > before {
			n++
		}
		show.add(len(text))
	}
	return c.finish(ctx, s, p, n)
}

// resume sends the first line. From the answer it knows how many lines an earlier
// run has brought into the stream, and makes the producer for those that follow.
func (c *appendCommand) resume(ctx context.Context, s *client.Stream, text []byte, contentType string) (p *client.Producer, before uint64, err error) {
	if wire.IsJSON(contentType) {
		text = append(append([]byte{'['}, text...), ']')
	}
	done, err := s.Append(ctx, text, &client.AppendOptions{Producer: &client.ProducerSeq{ID: c.Producer, Epoch: c.Epoch}, ContentType: contentType})
	if err != nil {
		return nil, 0, err
	}
	if done.Duplicate {
		before = done.LastSeq + 1
	}
	p, err = s.Producer(ctx, &client.ProducerOptions{ID: c.Producer, Epoch: c.Epoch, Seq: done.LastSeq + 1,
		MaxBatchCount: 1, MaxInFlight: lineRequests, ContentType: contentType})
	return p, before, err
}

// finish waits for what is on its way and tells where the stream ends.
func (c *appendCommand) finish(ctx context.Context, s *client.Stream, p *client.Producer, n int) (int, client.Appended, error) {
	if p != nil {
		if err := p.Close(ctx); err != nil {
			return n, client.Appended{}, err
		}
	}
	if c.Close {
		last, err := s.Close(ctx)
		return n, last, err
	}
	info, err := s.Head(ctx)
	return n, client.Appended{Tail: info.Tail, Closed: info.Closed}, err
}
