package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"durablestreams/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const dir = "/data/journal"

// newMem is an in-memory file system with the journal's parent directory.
func newMem(t testing.TB) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	mkdirDurable(t, mem)
	return mem
}

func mkdirDurable(t testing.TB, fs vfs.FS) {
	t.Helper()
	if err := fs.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := fs.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
}

// record is a record as a test expects it.
type record struct {
	lsn  uint64
	kind byte
	body string
}

// open opens the journal and returns what was replayed.
func open(fs vfs.FS, opts *journal.Options, from uint64) (*journal.Journal, []record, error) {
	var got []record
	j, err := journal.Open(fs, dir, opts, from, func(lsn uint64, kind byte, body []byte) error {
		if cap(body) != len(body) {
			return fmt.Errorf("body %d has %d bytes, capacity %d", lsn, len(body), cap(body))
		}
		got = append(got, record{lsn, kind, string(body)})
		return nil
	})
	return j, got, err
}

func mustOpen(t testing.TB, fs vfs.FS, opts *journal.Options, from uint64) (*journal.Journal, []record) {
	t.Helper()
	j, got, err := open(fs, opts, from)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return j, got
}

// batchOf makes a batch of records of kind 1.
func batchOf(bodies ...string) *journal.Batch {
	b := journal.NewBatch(0)
	for _, body := range bodies {
		b.AddBytes(1, []byte(body))
	}
	return b
}

func mustAppend(t testing.TB, j *journal.Journal, bodies ...string) uint64 {
	t.Helper()
	lsn, err := j.Append(batchOf(bodies...))
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return lsn
}

// closeSound closes the journal and checks that it would open again.
func closeSound(t testing.TB, j *journal.Journal, fs vfs.FS, from uint64) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := journal.Check(fs, dir, from); err != nil {
		t.Fatalf("check: %v", err)
	}
}

// numbered is the records from to to, as fill appends them.
func numbered(from, to int) []record {
	var rs []record
	for i := from; i <= to; i++ {
		rs = append(rs, record{uint64(i), 1, body(i)})
	}
	return rs
}

// body is the body of the record with LSN i, about 100 bytes.
func body(i int) string { return fmt.Sprintf("%07d-", i) + string(bytes.Repeat([]byte{'x'}, 90+i%7)) }

// fill appends the records from to to, one in a batch.
func fill(t testing.TB, j *journal.Journal, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if lsn := mustAppend(t, j, body(i)); lsn != uint64(i) {
			t.Fatalf("append gave LSN %d, want %d", lsn, i)
		}
	}
}

// wantRecords compares what was replayed with what should have been.
func wantRecords(t testing.TB, got, want []record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("record %d is %.40v, want %.40v", i, got[i], want[i])
		}
	}
}
