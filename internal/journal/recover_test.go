package journal_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"durablestreams/internal/format"
	"durablestreams/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var smallSegments = &journal.Options{SegmentSize: 4096}

// files is a closed journal of 100 records in several segments, to be damaged.
type files struct {
	t      testing.TB
	fs     *vfs.MemFS
	segs   []journal.SegmentInfo
	frames []journal.FrameInfo // frame i holds record i+1
}

func newFiles(t testing.TB) *files { return newNotedFiles(t, 0) }

// newNotedFiles is newFiles with a note when so many records were durable.
func newNotedFiles(t testing.TB, noted int) *files {
	f := &files{t: t, fs: newMem(t)}
	j, _ := mustOpen(t, f.fs, smallSegments, 0)
	fill(t, j, 1, noted)
	if err := j.Note(); err != nil {
		t.Fatal(err)
	}
	fill(t, j, noted+1, 100)
	closeSound(t, j, f.fs, 0)
	_, err := journal.Scan(f.fs, dir, &journal.Visitor{
		Segment: func(s journal.SegmentInfo) error { f.segs = append(f.segs, s); return nil },
		Frame:   func(fr journal.FrameInfo) error { f.frames = append(f.frames, fr); return nil },
	})
	if err != nil || len(f.segs) != 4 || len(f.frames) != 100 {
		t.Fatalf("scan: %d segments, %d frames, %v", len(f.segs), len(f.frames), err)
	}
	return f
}

func (f *files) path(seg int) string { return f.fs.PathJoin(dir, f.segs[seg].Name) }

// lastOf is the index of the last frame in segment seg.
func (f *files) lastOf(seg int) int {
	for i := len(f.frames) - 1; ; i-- {
		if f.frames[i].Segment == f.segs[seg].Number {
			return i
		}
	}
}

func (f *files) read(path string) []byte {
	file, err := f.fs.Open(path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

func (f *files) write(path string, content []byte) {
	file, err := f.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		f.t.Fatal(err)
	}
	d, err := f.fs.OpenDir(dir)
	if err := errors.Join(err, file.Sync(), file.Close(), d.Sync(), d.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *files) remove(seg int) {
	if err := f.fs.Remove(f.path(seg)); err != nil {
		f.t.Fatal(err)
	}
}

// edit changes the content of segment seg.
func (f *files) edit(seg int, change func(b []byte) []byte) {
	f.write(f.path(seg), change(f.read(f.path(seg))))
}

// editNote changes the content of the head file.
func (f *files) editNote(change func(b []byte) []byte) {
	path := f.fs.PathJoin(dir, "HEAD")
	f.write(path, change(f.read(path)))
}

// flip inverts a bit of frame i, at bytes from its start.
func (f *files) flip(i int, at int64) {
	for s, seg := range f.segs {
		if seg.Number == f.frames[i].Segment {
			f.edit(s, func(b []byte) []byte { b[f.frames[i].Offset+at] ^= 4; return b })
		}
	}
}

// noise writes garbage behind frame i, to the end of the segment.
func (f *files) noise(seg, i int) {
	f.edit(seg, func(b []byte) []byte {
		for k := f.frames[i].Offset + f.frames[i].Size; k < int64(len(b)); k++ {
			b[k] = byte(k * 7)
		}
		return b
	})
}

// damages is the table: what happens to the files, and what must come of it.
var damages = []struct {
	name   string
	damage func(f *files)
	from   uint64
	noted  int    // records that were durable at the last note, or less
	last   int    // LSN of the last record that opens, or that is left after Repair
	reason string // of the CorruptionError; empty if it must open
	at     int    // index of the frame at which the error is; -1 for the start of a segment, -3 for an end
}{
	{name: "none", damage: func(f *files) {}, last: 100},
	{name: "last frame: payload", damage: func(f *files) { f.flip(99, 60) }, last: 99},
	{name: "last frame: header", damage: func(f *files) { f.flip(99, 9) }, last: 99},
	{name: "last frame: marker", damage: func(f *files) { f.flip(99, 0) }, last: 99},
	{name: "last frame: length", damage: func(f *files) { f.flip(99, 7) }, last: 99},
	{name: "last frame, noted: payload", noted: 100, damage: func(f *files) { f.flip(99, 60) }, last: 99, at: 99, reason: "record 100 was durable"},
	{name: "last frame, noted: header", noted: 100, damage: func(f *files) { f.flip(99, 9) }, last: 99, at: 99, reason: "record 100 was durable"},
	{name: "last frame, noted: cut off", noted: 100, last: 99, at: 99, reason: "record 100 was durable", damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { return b[:f.frames[99].Offset+20] })
	}},
	{name: "last frames, noted: zeros", noted: 97, last: 95, at: 95, reason: "record 97 was durable", damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { clear(b[f.frames[95].Offset:]); return b })
	}},
	{name: "last frames: the note is older", noted: 95, last: 95, damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { clear(b[f.frames[95].Offset:]); return b })
	}},
	{name: "last frame, noted, durable elsewhere", noted: 100, from: 99, damage: func(f *files) { f.flip(99, 60) },
		last: 99, at: 99, reason: "record 100 was durable"},
	{name: "note: flipped", noted: 100, last: 99, damage: func(f *files) {
		f.flip(99, 60)
		f.editNote(func(b []byte) []byte { b[30] ^= 1; b[4096+30] ^= 1; return b })
	}},
	{name: "note: one of two flipped", noted: 100, last: 100, damage: func(f *files) {
		f.editNote(func(b []byte) []byte { b[30] ^= 1; return b })
	}},
	{name: "note: the other flipped", noted: 100, last: 100, damage: func(f *files) {
		f.editNote(func(b []byte) []byte { b[4096+30] ^= 1; return b })
	}},
	{name: "note: empty", noted: 100, last: 100, damage: func(f *files) { f.editNote(func([]byte) []byte { return nil }) }},
	{name: "last frame: cut short", last: 99, damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { return b[:f.frames[99].Offset+70] })
	}},
	{name: "last frame: only header", last: 99, damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { return b[:f.frames[99].Offset+40] })
	}},
	{name: "file ends after the last frame", last: 100, damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { return b[:f.frames[99].Offset+f.frames[99].Size] })
	}},
	{name: "noise after the last frame", damage: func(f *files) { f.noise(3, 99) }, last: 100},
	{name: "noise after an earlier segment", damage: func(f *files) { f.noise(0, f.lastOf(0)) }, last: 100},
	{name: "frame before the last: payload", damage: func(f *files) { f.flip(98, 60) },
		last: 98, at: 98, reason: "payload has a wrong checksum, but frame 100 follows"},
	{name: "frame before the last: header", damage: func(f *files) { f.flip(98, 20) },
		last: 98, at: 98, reason: "no frame header, but frame 100 follows"},
	{name: "frame before a torn one", damage: func(f *files) { f.flip(98, 60); f.flip(99, 60) },
		last: 98, at: 98, reason: "but frame 100 follows"},
	{name: "first segment", damage: func(f *files) { f.flip(3, 60) }, last: 3, at: 3, reason: "but frame 5 follows"},
	{name: "end of the first segment", damage: func(f *files) { f.flip(f.lastOf(0), 60) },
		last: 25, at: 25, reason: "but the next segment begins with frame 27"},
	{name: "first segment, durable elsewhere", damage: func(f *files) { f.flip(3, 60) }, from: 40, last: 100},
	{name: "first header, durable elsewhere", from: 40, last: 100, damage: func(f *files) {
		f.edit(0, func(b []byte) []byte { clear(b[:64]); return b })
	}},
	{name: "header zeroed", last: 26, at: -1, reason: "no magic number", damage: func(f *files) {
		f.edit(1, func(b []byte) []byte { clear(b[:64]); return b })
	}},
	{name: "header bit", last: 26, at: -1, reason: "header has a wrong checksum", damage: func(f *files) {
		f.edit(1, func(b []byte) []byte { b[30] ^= 1; return b })
	}},
	{name: "header version", last: 26, at: -1, reason: "damaged version", damage: func(f *files) {
		f.edit(1, func(b []byte) []byte { b[8] ^= 4; return b })
	}},
	{name: "last header zeroed", last: 78, at: -1, reason: "no magic number", damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { clear(b[:64]); return b })
	}},
	{name: "last file empty", last: 78, at: -1, reason: "has 0 of 64 bytes", damage: func(f *files) {
		f.edit(3, func(b []byte) []byte { return nil })
	}},
	{name: "first header zeroed", last: 0, at: -1, reason: "no magic number", damage: func(f *files) {
		f.edit(0, func(b []byte) []byte { clear(b[:64]); return b })
	}},
	{name: "another segment's file", last: 52, at: -1, reason: "belongs to segment 0000000000000002", damage: func(f *files) {
		f.edit(2, func(b []byte) []byte { return f.read(f.path(1)) })
	}},
	{name: "middle segment missing", damage: func(f *files) { f.remove(1) }, last: 26, at: 26, reason: "gap: "},
	{name: "first segment missing", damage: func(f *files) { f.remove(0) }, last: 0, at: -1, reason: "gap: the journal begins with record 27"},
	{name: "first segment missing, one record too many", damage: func(f *files) { f.remove(0) }, from: 25, last: 25, at: -1, reason: "gap"},
	{name: "first segment missing, durable elsewhere", damage: func(f *files) { f.remove(0) }, from: 26, last: 100},
	{name: "middle segment missing, durable elsewhere", damage: func(f *files) { f.remove(1) }, from: 52, last: 100},
	{name: "last segment missing", damage: func(f *files) { f.remove(3) }, last: 78, at: -3, reason: "segment 0000000000000004.seg was begun"},
	{name: "last two segments missing", damage: func(f *files) { f.remove(2); f.remove(3) }, last: 52, at: -3, reason: "was begun"},
	{name: "last segment missing, and the note: cannot be noticed", last: 78, damage: func(f *files) {
		f.remove(3)
		f.editNote(func(b []byte) []byte { clear(b); return b })
	}},
	{name: "last segment missing, known elsewhere", damage: func(f *files) { f.remove(3) }, from: 80, last: 80,
		at: -2, reason: "the journal ends, but once held record 80"},
	{name: "all missing, known elsewhere", from: 80, last: 80, at: -2, reason: "no segments", damage: func(f *files) {
		for i := range f.segs {
			f.remove(i)
		}
	}},
	{name: "foreign files", last: 100, damage: func(f *files) {
		for _, name := range []string{"x.seg", "00000000000000AA.seg", "0000000000000001.seg.damaged", "LOCK"} {
			f.write(f.fs.PathJoin(dir, name), []byte("hello"))
		}
		for _, name := range []string{"0000000000000009.tmp", "0000000000000009.free"} {
			f.write(f.fs.PathJoin(dir, name), f.read(f.path(1)))
		}
	}},
	{name: "frames of an older life of the file", last: 90, damage: func(f *files) {
		other := newFiles(f.t)
		old, at := other.read(other.path(3)), f.frames[90].Offset
		f.edit(3, func(b []byte) []byte { return append(b[:at:at], old[at:]...) })
	}},
}

func TestDamage(t *testing.T) {
	for _, tt := range damages {
		t.Run(tt.name, func(t *testing.T) {
			f := newNotedFiles(t, tt.noted)
			tt.damage(f)
			if tt.reason != "" {
				f.wantRefused(tt.from, tt.at, tt.last, tt.reason)
				return
			}
			if err := journal.Check(f.fs, dir, tt.from); err != nil {
				t.Fatalf("check: %v", err)
			}
			f.wantWorks(tt.from, tt.last)
		})
	}
}

// wantRefused checks that the journal is refused, and that nothing is written.
func (f *files) wantRefused(from uint64, at, last int, reason string) {
	f.t.Helper()
	before := f.fs.String()
	_, _, err := open(f.fs, smallSegments, from)
	c, ok := errors.AsType[*journal.CorruptionError](err)
	if !ok || !strings.Contains(err.Error(), reason) {
		f.t.Fatalf("open: %v, want corruption %q", err, reason)
	}
	if at >= 0 && (c.LSN != uint64(at+1) || (reason != "gap: " && (c.Segment != f.frames[at].Segment || c.Offset != f.frames[at].Offset))) {
		f.t.Fatalf("corruption is %+v, want frame %+v", *c, f.frames[at])
	}
	if at == -1 && (c.Segment == 0 || c.Offset != 0) {
		f.t.Fatalf("corruption is %+v, want the start of a segment", *c)
	}
	if checked := journal.Check(f.fs, dir, from); !errors.As(checked, &c) {
		f.t.Fatalf("check: %v", checked)
	}
	if after := f.fs.String(); after != before {
		f.t.Fatalf("files before:\n%s\nafter:\n%s", before, after)
	}
}

// wantWorks checks that the journal opens with the records to last, takes more,
// and opens again.
func (f *files) wantWorks(from uint64, last int) {
	f.t.Helper()
	j, got := mustOpen(f.t, f.fs, smallSegments, from)
	wantRecords(f.t, got, numbered(int(from)+1, last))
	fill(f.t, j, last+1, last+40)
	closeSound(f.t, j, f.fs, from)
	j, got = mustOpen(f.t, f.fs, smallSegments, from)
	wantRecords(f.t, got, numbered(int(from)+1, last+40))
	closeSound(f.t, j, f.fs, from)
}

func TestUnknownVersion(t *testing.T) {
	f := newFiles(t)
	f.edit(2, func(b []byte) []byte { b[8], b[60] = 7, b[60]^1; return b }) // it has another checksum too
	_, _, err := open(f.fs, smallSegments, 0)
	v, ok := errors.AsType[*format.VersionError](err)
	if !ok || v.Found != 7 || v.Known != 1 || !strings.Contains(err.Error(), ".seg was written by a newer ds (format 7; this ds reads up to 1)") {
		t.Fatalf("open: %v", err)
	}
	if _, err := journal.Repair(f.fs, dir, 0); !errors.As(err, &v) {
		t.Fatalf("repair: %v", err)
	}
	if _, err := journal.Scan(f.fs, dir, nil); !errors.As(err, &v) {
		t.Fatalf("scan: %v", err)
	}
}

// TestUnknownVersionElsewhere: also a segment that is not needed any more is
// not recycled by a program that does not know it.
func TestUnknownVersionElsewhere(t *testing.T) {
	f := newFiles(t)
	f.edit(0, func(b []byte) []byte { b[8], b[60] = 2, b[60]^1; return b })
	if _, _, err := open(f.fs, smallSegments, 60); !isVersionError(err) {
		t.Fatalf("open: %v", err)
	}
}

// A later version of the head file is refused too, and left as it is.
func TestUnknownHeadVersion(t *testing.T) {
	f := newNotedFiles(t, 100)
	f.editNote(func(b []byte) []byte { return append(journal.NoteOfVersion(2), b[64:]...) })
	before := f.fs.String()
	_, _, err := open(f.fs, smallSegments, 0)
	if !isVersionError(err) || !strings.Contains(err.Error(), "HEAD was written by a newer ds (format 2; this ds reads up to 1)") {
		t.Fatalf("open: %v", err)
	}
	if _, err := journal.Repair(f.fs, dir, 0); !isVersionError(err) {
		t.Fatalf("repair: %v", err)
	}
	if _, err := journal.Scan(f.fs, dir, nil); !isVersionError(err) {
		t.Fatalf("scan: %v", err)
	}
	if after := f.fs.String(); after != before {
		t.Fatalf("files before:\n%s\nafter:\n%s", before, after)
	}
}

// A head file alone says that there was a journal.
func TestOnlyTheHeadIsLeft(t *testing.T) {
	f := newNotedFiles(t, 100)
	for i := range f.segs {
		f.remove(i)
	}
	if used, err := journal.Used(f.fs, dir); err != nil || !used {
		t.Errorf("used: %v, %v", used, err)
	}
	if sum, err := journal.Scan(f.fs, dir, nil); err != nil || sum.NotedLSN != 100 || sum.Damages != 1 {
		t.Errorf("scan: %+v, %v", sum, err)
	}
	f.wantRefused(0, -2, 0, "no segments")
}

func isVersionError(err error) bool {
	return errors.Is(err, format.ErrNewer)
}

// TestLaterFrameAcrossReads has the only proof of damage lie across the border
// of two reads.
func TestLaterFrameAcrossReads(t *testing.T) {
	const firstRead = 64 + 8 + 256<<10 // where the second read begins
	for back := 0; back <= 48; back += 8 {
		second := bytes.Repeat([]byte("z"), firstRead-back-(64+48)-45-3)
		file := journal.Frames(fuzzSalt, []byte("abc"), second, bytes.Repeat([]byte("z"), 1000))
		if string(file[firstRead-back:][:4]) != "DSFM" {
			t.Fatalf("the third frame is not %d bytes before the border", back)
		}
		file[64]++
		file[64+48]++
		if raw, later := journal.ReadFrames(file, fuzzSalt); len(raw) != 0 || !later {
			t.Fatalf("%d bytes before the border: %d frames, later frame found: %v", back, len(raw), later)
		}
	}
}

func TestReplayErrorEndsOpen(t *testing.T) {
	f := newFiles(t)
	stop := errors.New("stop")
	n := 0
	_, err := journal.Open(f.fs, dir, smallSegments, 10, func(lsn uint64, _ byte, _ []byte) error {
		if n++; lsn == 13 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Fatalf("open: %v after %d records", err, n)
	}
}
