package history_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/history"
)

// broken is a server with something between it and its clients.
type broken struct {
	history.Server
	wrap func(http.Handler) http.Handler
}

func (b broken) Handler() http.Handler { return b.wrap(b.Server.Handler()) }

// forgetful answers some appends without doing them.
func forgetful(next http.Handler) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || n.Add(1)%20 != 0 {
			next.ServeHTTP(w, r)
			return
		}
		head := r.Clone(r.Context())
		head.Method = http.MethodHead
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, head)
		w.Header().Set("Stream-Next-Offset", rec.Header().Get("Stream-Next-Offset"))
		w.WriteHeader(http.StatusNoContent)
	})
}

// stale gives some reads the answer that another one had before.
func stale(next http.Handler) http.Handler {
	var mu sync.Mutex
	old := map[string]*httptest.ResponseRecorder{}
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || strings.Contains(r.RequestURI, "live=") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		mu.Lock()
		before := old[r.RequestURI]
		old[r.RequestURI] = rec
		if n++; before != nil && n%4 == 0 {
			rec = before
		}
		mu.Unlock()
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

// deaf says yes to deletions and does nothing.
func deaf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			next.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// What is wrong with a server shows in its histories.
func TestBrokenServers(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{"forgetful": forgetful, "stale": stale, "deaf": deaf} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 5; seed++ {
				var ops []*history.Op
				synctest.Test(t, func(t *testing.T) {
					open := history.Small(seed)
					sim := &history.Sim{Seed: seed, Settle: synctest.Wait, Open: func(fs vfs.FS) (history.Server, error) {
						s, err := open(fs)
						return broken{s, wrap}, err
					}}
					var err error
					if ops, err = sim.Run(); err != nil {
						t.Fatal(err)
					}
				})
				if len(history.Check(ops, searchTime).Failures) > 0 {
					return
				}
			}
			t.Error("five histories, and nobody notices")
		})
	}
}

// A failure is written down so that it can be looked at and checked again.
func TestFailureFiles(t *testing.T) {
	ops := []*op{at(1, 2, put(1, strings.Repeat("a", 1000)+"\x00ü«\n")), at(3, 4, del()), at(5, 6, get("-1", "a", 1, 1))}
	err := history.Check(ops, time.Minute).Err("seed 7")
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	file := regexp.MustCompile(`DS_HISTORY=(\S+)`).FindStringSubmatch(err.Error())
	if file == nil {
		t.Fatalf("no file named: %v", err)
	}
	defer os.RemoveAll(filepath.Dir(file[1]))
	how, loaded, lerr := history.Load(file[1])
	if lerr != nil || !strings.Contains(how, "seed 7") {
		t.Fatalf("%q, %v", how, lerr)
	}
	if !reflect.DeepEqual(loaded, ops) {
		a, _ := json.Marshal(loaded)
		b, _ := json.Marshal(ops)
		t.Errorf("other operations:\n%s\n%s", a, b)
	}
	if len(history.Check(loaded, time.Minute).Failures) != 1 {
		t.Error("checked again, nothing is wrong with it")
	}
	page, perr := os.ReadFile(strings.TrimSuffix(file[1], ".json") + ".html")
	if perr != nil || !strings.Contains(string(page), "delete f/a") {
		t.Errorf("%d bytes to look at, %v", len(page), perr)
	}
}
