package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/internal/format"
	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// Cut is a piece that Repair has taken out of the journal and set aside.
type Cut = journal.Cut

// Lost is a range of a stream's data that is not there any more.
type Lost = archive.Lost

// Repaired is what Repair has done.
type Repaired struct {
	Wrong []Problem // with the archive and the second copy of its rows
	Aside string    // directory, in the data directory, with what was taken out of the archive; empty: nothing
	Lost  []Lost    // data of streams that are there
	Cuts  []Cut     // pieces of the journal
}

// Repair makes a data directory openable that is damaged. What is damaged is set
// aside, nothing is deleted. It returns nothing if all is sound.
//
// Damaged files of the archive are taken out of it, and everything in them that can
// still be read is put back. Rows come from their second copy. Streams whose data
// were in what is lost have holes then, and reads end there.
//
// The journal is cut at the first damage and what follows is set aside in files
// called *.damaged: changes behind the damage are lost, so an operator decides it.
//
// A repair that has not come to its end has to be begun again. What a newer program has
// written is left alone: then it is [ErrNewer]. Small is as for [Check].
func Repair(fs vfs.FS, dir string, small RowCheck) (r *Repaired, err error) {
	lock, err := lockToLook(fs, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r = &Repaired{}
	if err := checkVersions(fs, dir); err != nil {
		return r, err
	}
	if err := r.archive(fs, dir, small); err != nil {
		return r, err
	}
	e, done, err := openToLook(fs, dir)
	if err != nil {
		return r, err
	}
	r.Cuts, err = journal.Repair(fs, fs.PathJoin(dir, journalDir), e.archive.Applied())
	return r, errors.Join(err, done())
}

// archive repairs the archive.
func (r *Repaired) archive(fs vfs.FS, dir string, small RowCheck) error {
	plan, begun, err := readPlan(fs, dir)
	if err != nil {
		return err
	}
	var d *archive.Diagnosis
	if !begun {
		if d, err = diagnose(fs, dir, small); err != nil {
			return err
		}
		r.Wrong = problems(d)
		if d.Sound() {
			return r.mirror(fs, dir, d)
		}
		if plan, err = makePlan(fs, dir, d); err != nil {
			return err
		}
	}
	r.Aside = plan.Aside
	plan.Aside = fs.PathJoin(dir, plan.Aside)
	done, err := plan.Run(fs, fs.PathJoin(dir, archiveDir), fs.PathJoin(dir, mirrorFile), d, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	r.Lost = done.Lost
	slices.SortFunc(r.Lost, func(a, b Lost) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.From, b.From)) })
	if plan.Blind { // it is of no use any more, and not what the archive is now
		if err := removeSynced(fs, dir, mirrorFile); err != nil {
			return err
		}
	}
	return removeSynced(fs, dir, planFile)
}

// mirror takes a damaged second copy of the rows away: the next start makes another.
func (r *Repaired) mirror(fs vfs.FS, dir string, d *archive.Diagnosis) error {
	if d.Rows == "" {
		return nil
	}
	return removeSynced(fs, dir, mirrorFile)
}

// makePlan decides what to do, and writes it down so that it will be done.
func makePlan(fs vfs.FS, dir string, d *archive.Diagnosis) (archive.Plan, error) {
	aside := archiveDir + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		if _, err := fs.Stat(fs.PathJoin(dir, aside)); errors.Is(err, os.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.damaged-%s-%d", archiveDir, time.Now().UTC().Format("20060102T150405Z"), i)
	}
	plan := d.Plan(aside)
	need, err := d.Room(plan)
	if err != nil {
		return plan, err
	}
	if usage, err := fs.GetDiskUsage(dir); err == nil && usage.AvailBytes < need {
		return plan, fmt.Errorf("the repair needs about %d MiB of space, there are %d: %w", need>>20, usage.AvailBytes>>20, syscall.ENOSPC)
	}
	b, err := json.Marshal(planContent{Format: planVersion, Plan: plan})
	if err != nil {
		return plan, err
	}
	return plan, writePlan(fs, dir, b)
}

// writePlan writes the plan durably, whole or not at all.
func writePlan(fs vfs.FS, dir string, b []byte) error {
	path := fs.PathJoin(dir, planFile)
	f, err := fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("begin repair: %w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("begin repair: %w", err)
	}
	if err := fs.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("begin repair: %w", err)
	}
	return syncDir(fs, dir)
}

// readPlan reads the plan of a repair that was begun.
func readPlan(fs vfs.FS, dir string) (plan archive.Plan, begun bool, err error) {
	f, err := fs.Open(fs.PathJoin(dir, planFile))
	if errors.Is(err, os.ErrNotExist) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("look for a repair: %w", err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return plan, true, fmt.Errorf("read the plan of a repair: %w", err)
	}
	var version struct{ Format uint64 }
	if err := json.Unmarshal(b, &version); err == nil && version.Format > planVersion {
		return plan, true, &format.VersionError{What: "the plan of a repair (" + planFile + ")", Found: version.Format, Known: planVersion}
	}
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields() // half a plan is none
	content := planContent{}
	if err := strict.Decode(&content); err != nil {
		return plan, true, fmt.Errorf("read the plan of a repair: %w", err)
	}
	return content.Plan, true, nil
}

// planVersion is the version of the plan's file; where none is written it is 1.
const planVersion = 1

type planContent struct {
	Format uint64
	archive.Plan
}

// checkVersions returns an [ErrNewer] if any file of the directory, or the archive's
// header as its second copy knows it, is of a newer program. Nothing is changed.
func checkVersions(fs vfs.FS, dir string) error {
	if err := journal.CheckVersion(fs, fs.PathJoin(dir, journalDir)); err != nil {
		return err
	}
	return archive.CheckVersion(fs, fs.PathJoin(dir, archiveDir), fs.PathJoin(dir, mirrorFile))
}

// removeSynced removes a file of the data directory, if it is there, durably.
func removeSynced(fs vfs.FS, dir, name string) error {
	if err := fs.Remove(fs.PathJoin(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// diagnose looks at the archive of a locked directory.
func diagnose(fs vfs.FS, dir string, small RowCheck) (*archive.Diagnosis, error) {
	first := uint64(0)
	_, err := journal.Scan(fs, fs.PathJoin(dir, journalDir), &journal.Visitor{Segment: func(s journal.SegmentInfo) error {
		if s.Err == nil && (first == 0 || s.FirstLSN < first) {
			first = s.FirstLSN
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	row := func([]byte, []byte) error { return nil }
	if small != nil {
		row = func(key, value []byte) error { return small(Row{Key: key, Value: value}) }
	}
	return archive.Diagnose(fs, fs.PathJoin(dir, archiveDir), fs.PathJoin(dir, mirrorFile), max(first, 1)-1, row)
}

// problems says what a diagnosis has found.
func problems(d *archive.Diagnosis) []Problem {
	r := &Report{}
	if d.Lost != "" {
		r.add("archive", "%s", d.Lost)
	}
	if d.Settings != "" {
		r.add("archive", "its settings cannot be read: %s", d.Settings)
	}
	for _, f := range d.Files {
		for _, what := range f.What {
			r.add(fmt.Sprintf("archive, file %s (level %d, %s to %s)", f.Name, f.Level, f.From, f.To), "%s", what)
		}
	}
	if d.Rows != "" && !d.NoCopy {
		r.add("second copy of the rows", "%s", d.Rows)
	}
	return r.Problems
}

// checkDamaged reports what is left of a damaged archive.
func checkDamaged(fs vfs.FS, dir string, r *Report, d *archive.Diagnosis) error {
	r.Problems = append(r.Problems, problems(d)...)
	there := map[stream.ID][]span{}
	err := d.Chunks(func(c archive.Chunk) {
		r.Chunks++
		there[c.ID] = append(there[c.ID], span{c.Pos, c.Pos + uint64(c.Len)})
	})
	if err != nil {
		return err
	}
	if d.Rows != "" {
		return nil // which streams there are is not known
	}
	var lost []Lost
	r.Archived, err = d.States(func(row *archive.Row) {
		s := row.State
		r.Streams++
		r.Bytes += s.Tail - s.Base()
		for _, g := range gaps(there[s.ID], span{s.Base(), s.Tail}) {
			lost = append(lost, Lost{ID: s.ID, Path: s.Path, From: g.start, To: g.end})
		}
	})
	slices.SortFunc(lost, func(a, b Lost) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.From, b.From)) })
	if err != nil {
		return err
	}
	for _, l := range lost {
		r.add(fmt.Sprintf("archive, stream %d (%s)", l.ID, l.Path), "data from %d to %d are lost", l.From, l.To)
	}
	path := fs.PathJoin(dir, journalDir)
	if err := journal.Check(fs, path, r.Archived); err != nil {
		r.add("journal", "%v", err)
	}
	sum, err := journal.Scan(fs, path, nil)
	r.Records = sum.Records
	return err
}

// gaps gives what of whole is in none of the spans.
func gaps(spans []span, whole span) (missing []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	pos := whole.start
	for _, s := range append(spans, span{whole.end, whole.end}) {
		if start := min(s.start, whole.end); start > pos {
			missing = append(missing, span{pos, start})
		}
		pos = max(pos, s.end)
	}
	return missing
}
