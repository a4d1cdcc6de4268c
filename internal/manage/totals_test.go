package manage_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/manage"
	"durablestreams/store"
)

// slow counts for as long as it is told to.
type slow struct {
	manage.Server
	takes time.Duration

	mu    sync.Mutex
	at    int // counts under way
	most  int // of those at once
	count int // all counts
}

func (s *slow) Totals(ctx context.Context, _ string, _ time.Time) (store.Totals, error) {
	s.add(1)
	defer s.add(-1)
	select {
	case <-time.After(s.takes):
		return store.Totals{Streams: 7}, nil
	case <-ctx.Done():
		return store.Totals{}, ctx.Err()
	}
}

func (s *slow) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at += n
	s.most = max(s.most, s.at)
	s.count += max(n, 0)
}

// Counting is one request's at a time, its outcome is everybody's, and who has gone
// keeps nobody waiting.
func TestTotalsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Second}
		failed := func(w http.ResponseWriter, _ *http.Request, err error) { http.Error(w, err.Error(), 500) }
		h := manage.Handler("/", s, failed)
		get := func(ctx context.Context, query string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/totals"+query, nil).WithContext(ctx))
			return w.Code
		}
		gone, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if code := get(gone, ""); code != 500 {
				t.Errorf("who has gone: %d", code)
			}
		})
		synctest.Wait()
		for range 9 {
			wg.Go(func() {
				if code := get(t.Context(), ""); code != 200 {
					t.Errorf("%d", code)
				}
			})
		}
		wg.Wait()
		if s.count != 2 || s.most != 1 { // the one that was given up, and one for all others
			t.Errorf("%d counts, %d at once", s.count, s.most)
		}
		for range 2 {
			wg.Go(func() { get(t.Context(), "?prefix=a") })
		}
		wg.Wait()
		if s.count != 4 || s.most != 1 {
			t.Errorf("by prefix: %d counts, %d at once", s.count, s.most)
		}
		time.Sleep(20 * time.Second) // the outcome is old by now
		get(t.Context(), "")
		if s.count != 5 {
			t.Errorf("%d counts", s.count)
		}
		begin := time.Now()
		get(t.Context(), "")
		if time.Since(begin) != 0 {
			t.Errorf("a known count takes %v", time.Since(begin))
		}
	})
}
