package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/internal/format"
	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// Report is what Check found in a data directory.
type Report struct {
	Streams  int       `json:"streams"`  // living ones, soft-deleted ones included
	Bytes    uint64    `json:"bytes"`    // of stream data, inherited data not counted
	Chunks   int       `json:"chunks"`   // in the archive
	Rows     int       `json:"rows"`     // small ones, beside the streams
	Records  uint64    `json:"records"`  // in the journal
	Archived uint64    `json:"archived"` // journal record up to which the archive is complete
	Problems []Problem `json:"problems"`
}

// Problem is something that is wrong, with its place.
type Problem struct {
	Where string `json:"where"`
	What  string `json:"what"`
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) add(where, what string, args ...any) {
	r.Problems = append(r.Problems, Problem{Where: where, What: fmt.Sprintf(what, args...)})
}

// RowCheck says what is wrong with a small row. Rows that it does not know are none of
// its business. That a newer program has written it is a *format.VersionError.
type RowCheck func(Row) error

// Check reads a whole data directory that no server is using and says what is
// wrong with it. It changes nothing. Small rows are looked at by small; nil looks at
// none. The error is about checking itself, for instance a directory in use, or one that
// a newer program has written: then it is [ErrNewer].
func Check(fs vfs.FS, dir string, small RowCheck) (r *Report, err error) {
	lock, err := lockToLook(fs, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r = &Report{Problems: []Problem{}}
	if _, begun, err := readPlan(fs, dir); err != nil || begun {
		r.add("archive", "a repair was begun and has not ended: begin it again")
		return r, err
	}
	d, err := diagnose(fs, dir, small)
	if err != nil {
		return nil, err
	}
	if !d.Sound() {
		return r, checkDamaged(fs, dir, r, d)
	}
	e, done, err := openToLook(fs, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	r.Archived = e.archive.Applied()
	c := &checker{e: e, report: r, row: small,
		tails: map[stream.ID]span{}, states: map[stream.ID]*stream.State{}, ended: map[stream.ID]bool{}}
	return r, c.run()
}

// lockToLook locks a directory that is there.
func lockToLook(fs vfs.FS, dir string) (io.Closer, error) {
	if err := Restoring(fs, dir); err != nil {
		return nil, err
	}
	_, err := fs.Stat(fs.PathJoin(dir, archiveDir))
	if errors.Is(err, os.ErrNotExist) {
		_, err = fs.Stat(fs.PathJoin(dir, mirrorFile))
	}
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	return Lock(fs, dir)
}

// openToLook opens a locked data directory for reading only.
func openToLook(fs vfs.FS, dir string) (*Engine, func() error, error) {
	var o *Options
	e := &Engine{opts: o.withDefaults(), fs: fs, dir: dir}
	e.log = e.opts.Logger
	e.table.init()
	e.fresh.init()
	e.flush.init()
	e.deadlines.init()
	var err error
	e.archive, err = archive.Open(fs, fs.PathJoin(dir, archiveDir), archive.Options{ReadOnly: true, Mirror: fs.PathJoin(dir, mirrorFile)})
	if err != nil {
		return nil, nil, err
	}
	return e, e.closeFiles, nil
}

type span struct{ start, end uint64 }

// checker goes over everything once.
type checker struct {
	e      *Engine
	report *Report
	row    RowCheck                    // nil: none
	tails  map[stream.ID]span          // what chunks cover, as far as without a hole
	states map[stream.ID]*stream.State // archive and journal together
	ended  map[stream.ID]bool
}

func (c *checker) run() error {
	if err := c.foldJournal(); err != nil {
		return err
	}
	steps := []func() error{c.chunks, c.rows, c.small, c.asides, c.names, c.deadlines, c.mirror, c.forks}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// foldJournal replays the journal in memory, as recovery would.
func (c *checker) foldJournal() error {
	dir := c.e.fs.PathJoin(c.e.dir, journalDir)
	applied := c.e.archive.Applied()
	if err := journal.Check(c.e.fs, dir, applied); err != nil {
		c.report.add("journal", "%v", err)
	}
	r, err := newRecovery(c.e)
	if err != nil {
		return err
	}
	defer r.rows.Close()
	_, err = journal.Scan(c.e.fs, dir, &journal.Visitor{
		Record: func(_ journal.FrameInfo, rec journal.Record) error {
			c.report.Records++
			if rec.LSN <= applied {
				return nil
			}
			err := r.replay(rec.LSN, rec.Kind, rec.Body)
			if errors.Is(err, format.ErrNewer) {
				return err
			}
			if err != nil {
				c.report.add("journal", "%v", err)
			}
			return nil
		},
		Damage: func(*journal.CorruptionError) error { return nil },
	})
	if errors.Is(err, format.ErrNewer) {
		return err
	}
	if err != nil {
		c.report.add("journal", "%v", err)
	}
	for id, lsn := range r.orphans {
		c.report.add("journal", "record %d is of stream %d, which is nowhere", lsn, id)
	}
	for id, err := range r.broken {
		c.report.add(fmt.Sprintf("journal, stream %d", id), "its records are of no use: %v", err)
	}
	for _, l := range c.e.flush.dirty {
		if l.gone {
			c.ended[l.state.ID] = true
		} else {
			c.states[l.state.ID] = &l.state
		}
	}
	return nil
}

func (c *checker) chunks() error {
	return c.e.archive.AllChunks(func(k archive.Chunk, data []byte) error {
		c.report.Chunks++
		s, seen := c.tails[k.ID]
		switch {
		case !seen:
			s = span{k.Pos, k.Pos}
		case s.end != k.Pos:
			c.report.add(fmt.Sprintf("archive, stream %d", k.ID), "chunk at %d, but the one before ends at %d", k.Pos, s.end)
		}
		if k.Len == 0 || k.Len > archive.MaxChunk {
			c.report.add(fmt.Sprintf("archive, stream %d", k.ID), "chunk at %d has %d bytes", k.Pos, k.Len)
		}
		s.end = k.Pos + uint64(k.Len)
		c.tails[k.ID] = s
		return nil
	})
}

// small checks the small rows, archive and journal taken together.
func (c *checker) small() error {
	err := c.e.Rows(nil, func(r Row) error {
		c.report.Rows++
		err := checkRow(r)
		if err == nil && c.row != nil {
			err = c.row(r)
		}
		if errors.Is(err, format.ErrNewer) {
			return fmt.Errorf("row %.40q: %w", r.Key, err)
		}
		if err != nil {
			c.report.add(fmt.Sprintf("row %.40q", r.Key), "%v", err)
		}
		return nil
	})
	if errors.Is(err, format.ErrNewer) {
		return err
	}
	if err != nil {
		c.report.add("rows", "%v", err)
	}
	return nil
}

// rows checks every state row against its chunks.
func (c *checker) rows() error {
	err := c.e.archive.Rows(func(row *archive.Row) error {
		s := row.State
		where := fmt.Sprintf("archive, stream %d (%s)", s.ID, s.Path)
		t, seen := c.tails[s.ID]
		if !seen {
			t = span{s.Base(), s.Base()}
		}
		if t.start != s.Base() || t.end != s.Tail {
			c.report.add(where, "its own data is %d to %d, the chunks cover %d to %d", s.Base(), s.Tail, t.start, t.end)
		}
		if row.Indexed != archive.IndexedDeadline(s) {
			c.report.add(where, "it is indexed under another deadline than it has")
		}
		delete(c.tails, s.ID)
		if c.states[s.ID] == nil && !c.ended[s.ID] {
			c.states[s.ID] = s
		}
		if id, found, err := c.e.archive.Lookup(s.Path); err != nil || !found || id != s.ID {
			c.report.add(where, "its name does not lead to it")
		}
		return nil
	}, func(id stream.ID, err error) {
		c.report.add(fmt.Sprintf("archive, stream %d", id), "unreadable state: %v", err)
		delete(c.tails, id)
	})
	for id := range c.tails {
		c.report.add(fmt.Sprintf("archive, stream %d", id), "chunks without a stream")
	}
	return err
}

func (c *checker) asides() error {
	return c.e.archive.Asides(func(id stream.ID, lsn uint64, kind byte, _ []byte) error {
		what := fmt.Sprintf("record %d (%s)", lsn, stream.RecordKind(kind))
		if lsn == 0 {
			what = "its state"
		}
		c.report.add(fmt.Sprintf("archive, stream %d", id), "%s was set aside, since the state was unreadable or too old", what)
		return nil
	})
}

func (c *checker) names() error {
	return c.e.archive.Names(func(n archive.Name) error {
		if row, err := c.e.archive.Load(n.ID); err == nil && (row == nil || row.State.Path != n.Path) {
			c.report.add("archive, name "+string(n.Path), "it leads to stream %d, which is not there", n.ID)
		}
		return nil
	})
}

func (c *checker) deadlines() error {
	return c.e.archive.Deadlines(func(d archive.Due) error {
		if row, err := c.e.archive.Load(d.ID); err == nil && (row == nil || max(row.Indexed, 0) != d.Deadline) {
			c.report.add(fmt.Sprintf("archive, stream %d", d.ID), "deadline %s is in the index but not the stream's",
				time.Unix(0, d.Deadline).UTC().Format(time.RFC3339))
		}
		return nil
	})
}

// mirror compares the rows with their second copy.
func (c *checker) mirror() error {
	path := c.e.fs.PathJoin(c.e.dir, mirrorFile)
	err := c.e.archive.CompareMirror(c.e.fs, path, func(key []byte, what string) {
		c.report.add("archive, "+archive.DescribeKey(key), "%s", what)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.report.add("second copy of the rows", "%v", err)
	}
	return nil
}

// forks checks the edges between streams, archive and journal taken together.
func (c *checker) forks() error {
	forks := map[stream.ID]uint32{}
	paths := map[stream.Path]stream.ID{}
	for id, s := range c.states {
		c.report.Streams++
		c.report.Bytes += s.Tail - s.Base()
		if other, taken := paths[s.Path]; taken {
			c.report.add("stream "+string(s.Path), "streams %d and %d are both there", id, other)
		}
		paths[s.Path] = id
		if s.Fork == nil {
			continue
		}
		forks[s.Fork.Source]++
		for _, a := range s.Fork.Lineage {
			if o := c.states[a.ID]; o == nil || o.Incarnation != a.Incarnation || o.Tail < a.End {
				c.report.add("stream "+string(s.Path), "data inherited from stream %d is missing", a.ID)
			}
		}
	}
	for id, s := range c.states {
		if forks[id] != s.Forks {
			c.report.add("stream "+string(s.Path), "it counts %d forks, there are %d", s.Forks, forks[id])
		}
		if s.Deleted && s.Forks == 0 {
			c.report.add("stream "+string(s.Path), "deleted and without forks, but still there")
		}
	}
	return nil
}
