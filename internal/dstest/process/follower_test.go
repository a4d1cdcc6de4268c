package process_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"durablestreams/internal/dstest/process"
)

// follower follows the stream of one producer, whose tokens count, by SSE or by
// long-polls, over every end of an answer, a connection or a server. It has to see
// each number once.
type follower struct {
	path, producer string
	poll           bool

	offset string // where to go on
	count  int    // the number that comes there
}

func (f *follower) verify(*process.Client) error { return nil }

// run follows until the server is gone.
func (f *follower) run(c *process.Client) error {
	if f.offset == "" {
		f.offset = "-1"
	}
	step := f.stream
	if f.poll {
		step = f.ask
	}
	for {
		if gone, err := step(c); gone || err != nil {
			return err
		}
	}
}

// ask is one long-poll.
func (f *follower) ask(c *process.Client) (gone bool, err error) {
	a := c.Do(http.MethodGet, f.path+"?live=long-poll&offset="+f.offset, "")
	switch {
	case a.Err != nil:
		return true, nil
	case a.Status == http.StatusOK:
		n, err := f.next(f.count, a.Body)
		if err != nil {
			return false, err
		}
		f.count = n
	case a.Status != http.StatusNoContent:
		return false, fmt.Errorf("long-poll of %s at %s: %v", f.path, f.offset, a)
	}
	f.offset = a.Tail()
	return false, nil
}

// next counts on from n.
func (f *follower) next(n int, text string) (int, error) {
	for line := range strings.Lines(text) {
		if want := fmt.Sprintf("%s.%d\n", f.producer, n); line != want {
			return n, fmt.Errorf("%s: a follower (long-polls: %v) gets %q after %s, want %q", f.path, f.poll, line, f.offset, want)
		}
		n++
	}
	return n, nil
}

// stream is one SSE answer.
func (f *follower) stream(c *process.Client) (gone bool, err error) {
	res, err := c.HTTP.Get(c.Streams + "/" + f.path + "?live=sse&offset=" + f.offset)
	if err != nil {
		return true, nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("SSE of %s at %s: status %d", f.path, f.offset, res.StatusCode)
	}
	count, data, kind := f.count, []string(nil), ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			kind = line[len("event: "):]
		case strings.HasPrefix(line, "data:"):
			data = append(data, line[len("data:"):])
		case line == "":
			text := strings.Join(data, "\n")
			if kind == "data" {
				if count, err = f.next(count, text); err != nil {
					return false, err
				}
			}
			var control struct{ StreamNextOffset string }
			if kind == "control" {
				if err := json.Unmarshal([]byte(text), &control); err != nil {
					return false, fmt.Errorf("SSE of %s: control %q: %w", f.path, text, err)
				}
				f.count, f.offset = count, control.StreamNextOffset
			}
			data, kind = nil, ""
		}
	}
	return false, nil
}

// finish reads what is left and compares the count with what was sent.
func (f *follower) finish(c *process.Client, sent int) error {
	a := c.ReadAll(f.path, f.offset)
	if a.Err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("read %s from %s: %v", f.path, f.offset, a)
	}
	n, err := f.next(f.count, a.Body)
	if err != nil {
		return err
	}
	if n != sent {
		return fmt.Errorf("%s: a follower (long-polls: %v) has seen %d tokens, %d were sent", f.path, f.poll, n, sent)
	}
	return nil
}
