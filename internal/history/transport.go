package history

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errLost says that the connection broke: the power is gone.
var errLost = errors.New("the connection broke")

// inside carries requests to a handler without a network. Its requests go on when
// their clients have gone.
type inside struct {
	handler http.Handler
	lost    func() bool // the power is gone: no answer counts any more

	mu      sync.Mutex
	down    bool
	running sync.WaitGroup
}

// RoundTrip implements http.RoundTripper.
func (t *inside) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	if t.down || t.lost() {
		t.mu.Unlock()
		return nil, ErrNotSent
	}
	t.running.Add(1)
	t.mu.Unlock()
	r := req.Clone(req.Context())
	r.RequestURI = req.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, pipe := io.Pipe()
	w := &writer{header: http.Header{}, body: pipe, head: make(chan struct{})}
	go func() {
		defer t.running.Done()
		defer func() {
			v := recover()
			w.WriteHeader(http.StatusInternalServerError) // if there was none
			if v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
			if v != nil {
				pipe.CloseWithError(errLost)
			}
			pipe.Close()
		}()
		t.handler.ServeHTTP(w, r)
	}()
	select {
	case <-w.head:
	case <-req.Context().Done():
		body.Close()
		return nil, req.Context().Err()
	}
	if t.lost() {
		body.Close()
		return nil, errLost
	}
	res := &http.Response{StatusCode: w.status, Header: w.sent, Body: &reader{t: t, req: req, ReadCloser: body}, Request: req}
	return res, nil
}

// stop lets no more requests in.
func (t *inside) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = true
}

// stuck is longer than any request can take.
const stuck = 10 * time.Minute

// drain waits until no request is inside any more.
func (t *inside) drain() {
	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(stuck)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		panic("a request is never answered") // nor would the simulation end
	}
}

// writer is the handler's side of an answer.
type writer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	head   chan struct{} // closed once status and sent are there
	status int
	sent   http.Header
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.head)
	})
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: nothing is held back.
func (w *writer) Flush() {}

// reader is the client's side of a body.
type reader struct {
	t   *inside
	req *http.Request
	io.ReadCloser
}

func (r *reader) Read(p []byte) (int, error) {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-r.req.Context().Done():
			r.ReadCloser.Close()
		case <-stop:
		}
	}()
	n, err := r.ReadCloser.Read(p)
	if r.t.lost() {
		return 0, errLost
	}
	if err == io.ErrClosedPipe {
		err = r.req.Context().Err()
	}
	return n, err
}
