package process_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"durablestreams/internal/dstest/process"
)

// ledger is what the clients of one stream that many write to know together.
type ledger struct {
	path string
	json bool

	mu    sync.Mutex
	acked map[string]string // token: the tail after it
	open  map[string]bool   // token: sent, and no answer came
}

func newLedger(path string, json bool) *ledger {
	return &ledger{path: path, json: json, acked: map[string]string{}, open: map[string]bool{}}
}

func (l *ledger) create(c *process.Client) error {
	if a := c.Do(http.MethodPut, l.path, "", "Content-Type", contentType(l.json)); a.Status != http.StatusCreated {
		return fmt.Errorf("create %s: %v", l.path, a)
	}
	return nil
}

func (l *ledger) body(token string) string {
	if l.json {
		return fmt.Sprintf(`{"token":"%s"}`, token)
	}
	return token + "\n"
}

// send appends a token and notes what came of it. gone tells that no answer came.
func (l *ledger) send(c *process.Client, token string, headers ...string) (status int, gone bool) {
	l.mu.Lock()
	l.open[token] = true
	l.mu.Unlock()
	a := c.Do(http.MethodPost, l.path, l.body(token), append(headers, "Content-Type", contentType(l.json))...)
	if a.Err != nil {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Status == http.StatusOK || a.Status == http.StatusNoContent {
		delete(l.open, token)
		if a.Status == http.StatusOK || len(headers) == 0 {
			l.acked[token] = a.Tail()
		} else {
			l.acked[token] = "" // a duplicate's answer names the tail of now
		}
	}
	return a.Status, false
}

// writer appends one token after the other.
type writer struct {
	*ledger
	name     string
	producer bool
	next     int
	retry    bool // the token before was not answered
}

func (w *writer) token(i int) string { return fmt.Sprintf("%s.%d", w.name, i) }

func (w *writer) headers() []string {
	if !w.producer {
		return nil
	}
	return process.Producer(w.name, 0, w.next)
}

// run appends until the server is gone. A producer first repeats what was not
// answered; others cannot, and go on with the next token.
func (w *writer) run(c *process.Client) error {
	for {
		status, gone := w.send(c, w.token(w.next), w.headers()...)
		switch {
		case gone:
			w.retry = w.producer
			if !w.producer {
				w.next++
			}
			return nil
		case w.producer && status != http.StatusOK && !(w.retry && status == http.StatusNoContent):
			return fmt.Errorf("producer %s, seq %d, repeated %v: status %d", w.name, w.next, w.retry, status)
		case !w.producer && status != http.StatusNoContent:
			return fmt.Errorf("writer %s: status %d", w.name, status)
		}
		w.retry = false
		w.next++
	}
}

// verify reads the stream and compares it with what its clients know.
func (l *ledger) verify(c *process.Client) error {
	a := c.ReadAll(l.path, "-1")
	if a.Err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("read %s: %v", l.path, a)
	}
	seen := map[string]bool{}
	lastOf := map[string]int{}
	lastTail, lastAcked := "", ""
	for line := range strings.Lines(a.Body) {
		token := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), `"}`), `{"token":"`)
		tail, acked := l.acked[token]
		name, number := split(token)
		last, before := lastOf[name]
		switch {
		case l.body(token) != strings.TrimSuffix(line, "\n") && l.body(token) != line:
			return fmt.Errorf("%s: torn line %q", l.path, line)
		case seen[token]:
			return fmt.Errorf("%s: %s is there twice", l.path, token)
		case !acked && !l.open[token]:
			return fmt.Errorf("%s: nobody sent %s", l.path, token)
		case before && number <= last:
			return fmt.Errorf("%s: %s comes after %s.%d", l.path, token, name, last)
		case tail != "" && tail <= lastTail:
			return fmt.Errorf("%s: %s was acknowledged at %s, %s before it at %s", l.path, token, tail, lastAcked, lastTail)
		}
		seen[token], lastOf[name] = true, number
		if tail != "" {
			lastTail, lastAcked = tail, token
		}
	}
	for token := range l.acked {
		if !seen[token] {
			return fmt.Errorf("%s: %s was acknowledged and is gone", l.path, token)
		}
	}
	if a.Tail() < lastTail {
		return fmt.Errorf("%s: the tail %s is before the acknowledged %s", l.path, a.Tail(), lastTail)
	}
	return nil
}

func split(token string) (name string, number int) {
	name, digits, _ := strings.Cut(token, ".")
	_, _ = fmt.Sscan(digits, &number)
	return name, number
}

// reader follows a stream and keeps what it has seen, over crashes.
type reader struct {
	*ledger
	sse    bool
	offset string
	seen   strings.Builder
	tip    string // seen, but the place after it is not known
}

func (r *reader) run(c *process.Client) error {
	if r.offset == "" {
		r.offset = "-1"
	}
	for r.sse {
		if gone, err := r.stream(c); gone || err != nil {
			return err
		}
	}
	for {
		a := c.Do(http.MethodGet, r.path+"?live=long-poll&offset="+r.offset, "")
		switch {
		case a.Err != nil:
			return nil
		case a.Status == http.StatusOK:
			if r.json {
				a.Body = process.Messages(a.Body)
			}
			r.seen.WriteString(a.Body)
		case a.Status != http.StatusNoContent:
			return fmt.Errorf("long-poll of %s at %s: %v", r.path, r.offset, a)
		}
		r.offset = a.Tail()
	}
}

// stream follows a text stream by SSE, to the end of the answer.
func (r *reader) stream(c *process.Client) (gone bool, err error) {
	res, err := c.HTTP.Get(c.Streams + "/" + r.path + "?live=sse&offset=" + r.offset)
	if err != nil {
		return true, nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("SSE of %s at %s: status %d", r.path, r.offset, res.StatusCode)
	}
	r.tip = "" // it comes again
	var event string
	var data []string
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			event = line[len("event: "):]
		case strings.HasPrefix(line, "data:"):
			data = append(data, line[len("data:"):])
		case line == "":
			if err := r.event(event, strings.Join(data, "\n")); err != nil {
				return false, err
			}
			event, data = "", nil
		}
	}
	return false, nil
}

func (r *reader) event(kind, data string) error {
	switch kind {
	case "data":
		r.tip += data
	case "control":
		var control struct{ StreamNextOffset string }
		if err := json.Unmarshal([]byte(data), &control); err != nil {
			return fmt.Errorf("SSE of %s: control %q: %w", r.path, data, err)
		}
		r.seen.WriteString(r.tip)
		r.tip, r.offset = "", control.StreamNextOffset
	}
	return nil
}

// verify: what a reader has seen is there.
func (r *reader) verify(c *process.Client) error {
	if r.offset == "" {
		return nil
	}
	all := c.ReadAll(r.path, "-1")
	if seen := r.seen.String() + r.tip; all.Err != nil || !strings.HasPrefix(all.Body, seen) {
		return fmt.Errorf("%s: a reader (SSE: %v) has seen %s, the stream holds %s", r.path, r.sse, brief(seen), brief(all.Body))
	}
	return nil
}
