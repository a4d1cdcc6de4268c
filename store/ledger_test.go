package store_test

import (
	"errors"
	"sync"
	"testing"

	"durablestreams/internal/dstest"
	"durablestreams/store"
	"durablestreams/stream"
)

// tally is a ledger that refuses nothing.
type tally struct {
	mu      sync.Mutex
	streams int
	bytes   uint64
}

func (l *tally) add(streams int, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams += streams
	l.bytes += bytes
}

func (l *tally) Create(_ stream.Path, bytes int, dry bool) (store.Account, *stream.Error) {
	if !dry {
		l.add(1, uint64(bytes))
	}
	return l, nil
}

func (l *tally) Account(stream.Path) store.Account  { return l }
func (l *tally) Found(_ stream.Path, bytes uint64)  { l.add(1, bytes) }
func (l *tally) GiveBack(streams int, bytes uint64) { l.add(-streams, -bytes) }
func (l *tally) Append(n int, dry bool) *stream.Error {
	if !dry {
		l.add(0, uint64(n))
	}
	return nil
}

// Streams whose rows are damaged count if the second copy has them, and only then, so
// that their end takes out what was counted.
func TestLedgerCountsRescuedStreams(t *testing.T) {
	whole, _ := archived(t)
	rescued, refused := 0, 0
	for _, name := range tables(whole) {
		for _, at := range []int{30, 300, 1000} {
			disk := whole.Crash(nil, dstest.Loss{})
			disk.Edit("data/archive/"+name, func(b []byte) []byte { b[at%len(b)] ^= 1; return b })
			o, ledger := small(), &tally{}
			o.Ledger = ledger
			e, err := store.Open(disk, dstest.Dir, o)
			if err != nil {
				if !errors.Is(err, store.ErrDamaged) {
					t.Errorf("%s, byte %d: %v", name, at, err)
				}
				refused++
				continue
			}
			page, err := e.Page("", "", 100)
			if err != nil {
				t.Fatal(err)
			}
			streams, bytes := 0, uint64(0)
			for i := range page.Streams {
				if s := &page.Streams[i]; !s.Damaged {
					streams++
					bytes += s.Size()
				}
			}
			if streams == 8 {
				rescued++
			}
			if ledger.streams != streams || ledger.bytes != bytes {
				t.Errorf("%s, byte %d: %d streams with %d bytes, want %d with %d", name, at, ledger.streams, ledger.bytes, streams, bytes)
			}
			if _, err := e.DeletePage("", "", 100); err != nil {
				t.Fatal(err)
			}
			if ledger.streams != 0 || ledger.bytes != 0 {
				t.Errorf("%s, byte %d: in the end %d streams with %d bytes", name, at, ledger.streams, ledger.bytes)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rescued == 0 || refused > rescued {
		t.Errorf("%d damaged archives were made good, %d refused", rescued, refused)
	}
}
