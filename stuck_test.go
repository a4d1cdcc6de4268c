package durablestreams_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest/fakestore"
)

// stuckEngine never closes, and never answers a change once it is held.
type stuckEngine struct {
	fakestore.Store
	closing, release chan struct{}
}

func (e *stuckEngine) Close() error {
	close(e.closing)
	<-e.release
	return nil
}

// The end comes in bounded time, with an error, whatever hangs.
func TestShutdownWhateverHangs(t *testing.T) {
	const grace = 3 * time.Second
	sick := errors.New("the disk is sick")
	for _, tt := range []struct {
		name  string
		fails string // when the disk fails
		want  error
		took  time.Duration
	}{
		{"stuck", "", durablestreams.ErrStuck, grace + durablestreams.SettleTime + durablestreams.CloseTime},
		{"failed before", "before", sick, 3 * durablestreams.SettleTime},
		{"failed while it closes", "closing", sick, grace + 2*durablestreams.SettleTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &stuckEngine{closing: make(chan struct{}), release: make(chan struct{})}
				s, fail, err := durablestreams.OnEngine(e, nil)
				if err != nil {
					t.Fatal(err)
				}
				e.Held = true
				var wg sync.WaitGroup
				wg.Go(func() { do(s.Handler(), http.MethodPut, streamA, strings.NewReader("x"), "Content-Type", "text/plain") })
				synctest.Wait()
				begin := time.Now()
				switch tt.fails {
				case "before":
					fail(sick)
				case "closing":
					wg.Go(func() {
						<-e.closing
						fail(sick)
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), grace)
				defer cancel()
				if err := s.Shutdown(ctx); !errors.Is(err, tt.want) {
					t.Errorf("Shutdown: %v, want %v", err, tt.want)
				}
				if took := time.Since(begin); took > tt.took {
					t.Errorf("it took %v, want at most %v", took, tt.took)
				}
				close(e.release)
				e.Release()
				wg.Wait()
			})
		})
	}
}

// The same with connections: neither adapter waits for a store that does not
// answer.
func TestServeEndsWithAStuckDisk(t *testing.T) {
	for _, noFastPath := range []bool{false, true} {
		e := &stuckEngine{closing: make(chan struct{}), release: make(chan struct{})}
		s, fail, err := durablestreams.OnEngine(e, &durablestreams.Options{NoFastPath: noFastPath})
		if err != nil {
			t.Fatal(err)
		}
		ln := listen(t)
		end := make(chan error, 1)
		go func() { end <- s.Serve(t.Context(), ln) }()
		e.Do(func() { e.Held = true })
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "PUT "+streamA+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		waitFor(t, func() bool { _, err := e.Stat("a", false); return err == nil })
		sick := errors.New("the disk is sick")
		fail(sick)
		select {
		case err := <-end:
			if !errors.Is(err, sick) {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(15 * time.Second):
			t.Error("it goes on")
		}
		conn.Close()
		close(e.release)
		e.Release()
	}
}
