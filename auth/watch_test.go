package auth_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/auth"
	"durablestreams/stream"
)

// lockedLog is what was logged.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// followed is an Authorizer that follows its access file, in virtual time.
type followed struct {
	*testing.T
	*auth.Authorizer
	file    string
	log     lockedLog
	changes atomic.Int32
}

func (f *followed) write(text string) {
	f.Helper()
	if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// later lets some time go by and looks at what came of it.
func (f *followed) later(d time.Duration, who, want string, changes int32) {
	f.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := ask(f.Authorizer, bearer(made(who)), stream.MayRead, "a"); got != want || f.changes.Load() != changes {
		f.Errorf("%s: %s after %d changes, want %s after %d", who, got, f.changes.Load(), want, changes)
	}
}

func follow(t *testing.T, test func(f *followed)) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{T: t, file: filepath.Join(t.TempDir(), "access")}
		f.write("key one " + hash(made("one")) + " read:a\n")
		var err error
		f.Authorizer, err = auth.New(&auth.Options{File: f.file, Logger: slog.New(slog.NewTextHandler(&f.log, nil))}, auth.NewURLKey())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Watch(ctx, func() { f.changes.Add(1) })
		}()
		time.Sleep(250 * time.Millisecond) // between two looks
		test(f)
		stop()
		<-ended
	})
}

// A change counts once it has stayed the same for half a second, however it is made.
func TestWatch(t *testing.T) {
	// Of another length: the clock of files may stand still between two writes.
	two := "key two " + hash(made("two")) + " read:a read:b\n"
	for name, change := range map[string]func(f *followed){
		"written": func(f *followed) { f.write(two) },
		"renamed": func(f *followed) {
			if err := os.WriteFile(f.file+"~", []byte(two), 0o600); err != nil {
				f.Fatal(err)
			}
			if err := os.Rename(f.file+"~", f.file); err != nil {
				f.Fatal(err)
			}
		},
		"another length of the same time": func(f *followed) {
			at := time.Now().Add(-time.Hour)
			if err := os.Chtimes(f.file, at, at); err != nil {
				f.Fatal(err)
			}
			f.later(time.Second, "one", "ok", 1)
			f.changes.Store(0)
			f.write(two + "#")
			if err := os.Chtimes(f.file, at, at); err != nil {
				f.Fatal(err)
			}
		},
		"emptied first": func(f *followed) {
			f.write("")
			f.later(500*time.Millisecond, "one", "ok", 0)
			f.write(two)
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(f *followed) {
				change(f)
				f.later(500*time.Millisecond, "one", "ok", 0)
				f.later(500*time.Millisecond, "one", "invalid_token", 1)
				f.later(0, "two", "ok", 1)
				f.later(time.Hour, "two", "ok", 1)
			})
		})
	}
}

// A file that is wrong, or gone, leaves the rules; that is told once. Then a good one counts.
func TestWatchWrongFile(t *testing.T) {
	for name, spoil := range map[string]func(f *followed){
		"wrong": func(f *followed) { f.write("key one " + made("secret") + "\n") },
		"gone": func(f *followed) {
			if err := os.Remove(f.file); err != nil {
				f.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, func(f *followed) {
				if got, want := f.Stats(), (auth.Stats{Taken: 1}); got != want {
					f.Errorf("%+v at the start, want %+v", got, want)
				}
				spoil(f)
				f.later(time.Hour, "one", "ok", 0)
				if got, want := f.Stats(), (auth.Stats{Taken: 1, Refused: 1, Stale: true}); got != want {
					f.Errorf("%+v, want %+v", got, want)
				}
				if n := strings.Count(f.log.String(), "level=WARN"); n != 1 || strings.Contains(f.log.String(), made("secret")) {
					f.Errorf("told %d times: %s", n, &f.log)
				}
				if err := f.Reload(auth.NewURLKey()); err == nil {
					f.Error("a reload that fails says nothing")
				}
				f.write("key two " + hash(made("two")) + " read:a read:b\n")
				f.later(time.Second, "two", "ok", 1)
				if got, want := f.Stats(), (auth.Stats{Taken: 2, Refused: 2}); got != want {
					f.Errorf("%+v in the end, want %+v", got, want)
				}
			})
		})
	}
}

// What a reload has taken is not taken again.
func TestWatchAfterReload(t *testing.T) {
	follow(t, func(f *followed) {
		f.write("key two " + hash(made("two")) + " read:a read:b\n")
		if err := f.Reload(auth.NewURLKey()); err != nil {
			t.Fatal(err)
		}
		f.later(time.Minute, "two", "ok", 0)
	})
}
