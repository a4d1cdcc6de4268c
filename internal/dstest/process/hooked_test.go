package process_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"durablestreams/internal/dstest/process"
)

// hooked writes to a stream and has a webhook called for what it writes, which acks
// each delivery with its answer.
type hooked struct {
	path string
	to   *httptest.Server
	made bool
	seq  int
	tail string // after the last append that was acknowledged

	mu         sync.Mutex
	generation int64
	acked      string // as the last delivery said
	deliveries int
	wrong      error
}

func newHooked(i int) *hooked {
	h := &hooked{path: fmt.Sprintf("hooked/%d", i)}
	h.to = httptest.NewServer(h)
	return h
}

func (h *hooked) id() string { return "__ds/subscriptions/of-" + h.path[len("hooked/"):] }

// ServeHTTP is the receiver.
func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var d struct {
		Generation int64
		Streams    []struct {
			Path  string
			Acked string `json:"acked_offset"`
			Tail  string `json:"tail_offset"`
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server has gone
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch err := json.Unmarshal(body, &d); {
	case err != nil || len(d.Streams) != 1 || d.Streams[0].Path != h.path:
		h.wrong = fmt.Errorf("delivery to %s: %s", h.path, body)
	case d.Generation < h.generation || d.Streams[0].Acked < h.acked || d.Streams[0].Tail < d.Streams[0].Acked:
		h.wrong = fmt.Errorf("after generation %d, acked up to %s, comes %s", h.generation, h.acked, body)
	default:
		h.generation, h.acked = d.Generation, d.Streams[0].Acked
	}
	h.deliveries++
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"done":true}`)
}

func (h *hooked) put(c *process.Client) error {
	if a := c.Do(http.MethodPut, h.path, "", "Content-Type", "text/plain"); a.Err != nil || a.Status >= 300 {
		return fmt.Errorf("put %s: %v", h.path, a)
	}
	a := c.Do(http.MethodPut, h.id(), fmt.Sprintf(`{"type":"webhook","streams":[%q],"webhook":{"url":%q},"lease_ttl_ms":1000}`, h.path, h.to.URL))
	if a.Err != nil || a.Status >= 300 {
		return fmt.Errorf("put %s: %v", h.id(), a)
	}
	h.made = true
	return nil
}

func (h *hooked) run(c *process.Client) error {
	for {
		a := c.Do(http.MethodPost, h.path, fmt.Sprintf("%d\n", h.seq), append(process.Producer("h", 0, h.seq), "Content-Type", "text/plain")...)
		switch {
		case a.Err != nil:
			return nil
		case a.Status != http.StatusOK && a.Status != http.StatusNoContent:
			return fmt.Errorf("append %d to %s: %v", h.seq, h.path, a)
		}
		h.seq++
		h.tail = a.Tail()
	}
}

func (h *hooked) verify(c *process.Client) error {
	if !h.made {
		return h.put(c)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrong
}

// finish waits until everything has been delivered.
func (h *hooked) finish(c *process.Client) error {
	// An append without an answer is made sure of.
	a := c.Do(http.MethodPost, h.path, fmt.Sprintf("%d\n", h.seq), append(process.Producer("h", 0, h.seq), "Content-Type", "text/plain")...)
	if a.Err != nil || a.Status >= 300 {
		return fmt.Errorf("append %d to %s: %v", h.seq, h.path, a)
	}
	h.seq++
	h.tail = a.Tail()
	acked := ""
	for begin := time.Now(); time.Since(begin) < 60*time.Second; time.Sleep(50 * time.Millisecond) {
		a := c.Do(http.MethodGet, h.id(), "")
		var v struct {
			Streams []struct {
				Acked string `json:"acked_offset"`
			}
		}
		if json.Unmarshal([]byte(a.Body), &v) != nil || len(v.Streams) != 1 {
			return fmt.Errorf("get %s: %v", h.id(), a)
		}
		if acked = v.Streams[0].Acked; acked == h.tail {
			return h.verify(c)
		}
	}
	return fmt.Errorf("%s was delivered up to %s, of %s, in %d deliveries", h.path, acked, h.tail, h.deliveries)
}
