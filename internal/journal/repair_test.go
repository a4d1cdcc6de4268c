package journal_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"durablestreams/internal/journal"
)

func TestRepair(t *testing.T) {
	for _, tt := range damages {
		t.Run(tt.name, func(t *testing.T) {
			f := newNotedFiles(t, tt.noted)
			tt.damage(f)
			before := f.content()
			cuts, err := journal.Repair(f.fs, dir, tt.from)
			if err != nil {
				t.Fatalf("repair: %v", err)
			}
			if (tt.reason == "" || tt.at == -2) != (len(cuts) == 0) {
				t.Fatalf("repair cut %+v", cuts)
			}
			for _, c := range cuts {
				saved := string(f.read(f.fs.PathJoin(dir, c.SavedAs)))
				if saved != before[c.Segment] || int64(len(saved)) != c.Size {
					t.Fatalf("%+v does not hold what the segment held", c)
				}
			}
			if again, err := journal.Repair(f.fs, dir, tt.from); err != nil || len(again) != 0 {
				t.Fatalf("second repair: %v, %v", again, err)
			}
			f.wantWorks(tt.from, tt.last)
		})
	}
}

// content is the content of the segments by number.
func (f *files) content() map[uint64]string {
	m := map[uint64]string{}
	for i, seg := range f.segs {
		if _, err := f.fs.Stat(f.path(i)); err == nil {
			m[seg.Number] = string(f.read(f.path(i)))
		}
	}
	return m
}

// TestRepairCrash crashes Repair at each of its changes. Then the journal is
// still refused, and can be repaired, or it is repaired; no record before the
// damage is lost.
func TestRepairCrash(t *testing.T) {
	for _, tt := range damages {
		if tt.reason == "" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			for at := 0; ; at++ {
				killed := crashRepair(t, tt.noted, tt.damage, tt.from, at, func(p *powerFS) *powerFS { return p.kill() })
				cut := crashRepair(t, tt.noted, tt.damage, tt.from, at, func(p *powerFS) *powerFS { return p.cut(50, true) })
				if killed == nil || cut == nil {
					return
				}
				killed.wantWorks(tt.from, tt.last)
				cut.wantWorks(tt.from, tt.last)
			}
		})
	}
}

// crashRepair crashes Repair at a change and repairs what is left; nil if
// Repair has fewer changes.
func crashRepair(t *testing.T, noted int, damage func(*files), from uint64, at int, crash func(*powerFS) *powerFS) *files {
	f := newNotedFiles(t, noted)
	damage(f)
	f.syncDir()
	p := newPowerFS(f.fs, rand.New(rand.NewPCG(uint64(at), 2)))
	p.countdown = at
	_, err := journal.Repair(p, dir, from)
	if err == nil {
		return nil
	}
	if !errors.Is(err, errPower) {
		t.Fatalf("repair: %v", err)
	}
	f.fs = crash(p).mem
	if _, err := journal.Repair(f.fs, dir, from); err != nil {
		t.Fatalf("repair after crash at change %d: %v", at, err)
	}
	return f
}

func (f *files) syncDir() {
	d, err := f.fs.OpenDir(dir)
	if err := errors.Join(err, d.Sync(), d.Close()); err != nil {
		f.t.Fatal(err)
	}
}

func TestScanGoesOnBehindDamage(t *testing.T) {
	f := newFiles(t)
	f.flip(3, 60)
	f.flip(60, 60)
	f.flip(99, 60)
	var lsns []uint64
	var found []string
	sum, err := journal.Scan(f.fs, dir, &journal.Visitor{
		Record: func(fr journal.FrameInfo, r journal.Record) error {
			if r.LSN != fr.FirstLSN || string(r.Body) != body(int(r.LSN)) {
				t.Errorf("record %d is %q", r.LSN, r.Body)
			}
			lsns = append(lsns, r.LSN)
			return nil
		},
		Damage: func(c *journal.CorruptionError) error { found = append(found, c.Error()); return nil },
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	if len(lsns) != 97 || sum.Records != 97 || sum.FirstLSN != 1 || sum.LastLSN != 99 || sum.Segments != 4 {
		t.Fatalf("scan saw %d records: %+v", len(lsns), sum)
	}
	if len(found) != 2 || sum.Damages != 2 || !strings.Contains(found[0], "record 4:") || !strings.Contains(found[1], "record 61:") {
		t.Fatalf("scan found %q", found)
	}
	if sum.EndOffset != f.frames[99].Offset || sum.End == "" {
		t.Fatalf("scan ended %+v", sum)
	}
}
