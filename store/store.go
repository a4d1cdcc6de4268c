// Package store is the engine: it keeps streams durable on a file system and
// gives them back. It knows bytes in stored form and leaves their meaning to
// the transport.
//
// # The way of a change
//
// Apply locks the stream, asks package stream to decide, encodes the record
// into the open commit batch and folds it. The committer writes one batch after
// another to the journal, each with one write and one data sync; then it
// publishes what the batch changed, wakes the watchers and completes the
// requests. While one batch is being synced the next one fills.
//
// So every stream has two faces. The decided one includes records that are on
// their way to the disk; changes are decided on it. The published one includes
// only what is durable; readers see nothing else. An answer that depends on a
// record still under way waits for it.
//
// # Where the bytes are
//
// Published bytes stay in memory, as slices of the journal batches they came
// in, until the flusher has moved them into the archive and let go of the
// journal's segments. A read takes what the archive has and the rest from
// memory.
//
// # Locks
//
// One mutex a path (slot.mu) guards both faces of the stream there. Whoever
// needs several paths (forks and their deletion) holds Engine.forks first.
// Engine.open guards the commit batch being filled and is taken with a slot
// held; an observer's own lock may be taken in between. The other mutexes (table shards, dirty list, deadlines, wake queue)
// guard a small structure each and are taken last. No lock is held while the
// journal is written or synced; loading an idle stream from the archive holds
// its own slot only.
package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/internal/format"
	"durablestreams/internal/journal"
	"durablestreams/stream"
)

// Options configure an engine. The zero value works.
type Options struct {
	SegmentSize int64 // bytes of a journal segment; default 64 MiB
	TailMemory  int64 // bytes of unarchived data at which a flush starts; default 128 MiB
	CacheSize   int64 // bytes of the archive's block cache; default 64 MiB
	MaxQueued   int64 // bytes of changes waiting for the disk; beyond it they are refused as Busy; default 64 MiB

	FlushInterval time.Duration // longest time that data stays out of the archive; default 30 s
	IdleAfter     time.Duration // a stream unused for so long leaves memory; default 60 s

	SameType stream.SameType // how content types compare; default: byte for byte
	Logger   *slog.Logger    // default: discard
	OnFatal  func(error)     // called once if the disk fails; the process must stop
	Observer Observer        // learns of changes of streams; default: nobody
	Ledger   Ledger          // counts what streams take, and bounds it; default: nobody does
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	setDefault(&d.SegmentSize, 64<<20)
	setDefault(&d.TailMemory, 128<<20)
	setDefault(&d.CacheSize, 64<<20)
	setDefault(&d.MaxQueued, 64<<20)
	setDefault(&d.FlushInterval, 30*time.Second)
	setDefault(&d.IdleAfter, time.Minute)
	if d.SameType == nil {
		d.SameType = func(a, b string) bool { return a == b }
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.OnFatal == nil {
		d.OnFatal = func(error) {}
	}
	return d
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Engine is an open store. Its methods may be called at once from any goroutine.
type Engine struct {
	opts    Options
	log     *slog.Logger
	fs      vfs.FS
	dir     string
	lock    io.Closer
	journal *journal.Journal
	archive *archive.Archive

	table table
	fresh freshTable
	forks sync.Mutex // held by whoever holds more than one slot

	open    openBatch
	rows    rowTable
	durable atomic.Uint64 // LSN up to which records are published
	nextID  atomic.Uint64

	flush     flusher
	deadlines deadlines
	wakes     wakeQueue
	pictures  pictures

	stats   stats
	space   spaceGuard
	anchor  anchor
	failure atomic.Pointer[error]
	stopped chan struct{}
	closing atomic.Bool
	workers sync.WaitGroup
	close   sync.Once
	closed  error
}

// Names inside a data directory.
const (
	journalDir = "journal"
	archiveDir = "archive"
	mirrorFile = "mirror"
	lockFile   = "LOCK"
	planFile   = "REPAIR"
)

// ErrDamaged says that files of the data directory are damaged: [Check] says which,
// and [Repair] makes it openable again.
var ErrDamaged = errors.New("the data directory is damaged")

// ErrNewer says that something of the data directory was written by a newer program, in
// a format that this one does not know. Nothing was changed.
var ErrNewer = format.ErrNewer

// ErrRepairing says that a repair of the data directory was begun and has not ended.
var ErrRepairing = errors.New("a repair of this data directory has not ended: it has to be begun again")

// Open opens or creates the store in dir and replays its journal.
func Open(fs vfs.FS, dir string, o *Options) (*Engine, error) {
	e := &Engine{opts: o.withDefaults(), fs: fs, dir: dir, stopped: make(chan struct{})}
	e.log = e.opts.Logger
	e.table.init()
	e.fresh.init()
	e.flush.init()
	e.deadlines.init()
	e.wakes.init()
	e.open.init()
	e.space.init(fs, dir)
	e.stats.init()
	if err := e.openFiles(); err != nil {
		return nil, errors.Join(asDamage(err), e.closeFiles())
	}
	e.start(e.runCommitter)
	e.start(e.runFlusher)
	e.start(e.runSweeper)
	e.start(e.runWaker)
	e.start(e.runSpace)
	return e, nil
}

func (e *Engine) start(run func()) { e.workers.Go(run) }

func (e *Engine) openFiles() error {
	if err := makeDir(e.fs, e.dir); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	var err error
	if e.lock, err = Lock(e.fs, e.dir); err != nil {
		return err
	}
	if err := e.anchor.drop(e.fs, e.fs.PathJoin(e.dir, lockFile)); err != nil {
		return fmt.Errorf("look at the lock: %w", err)
	}
	e.fs = anchoredFS{e.fs, &e.anchor}
	if err := Restoring(e.fs, e.dir); err != nil {
		return err
	}
	if _, begun, err := readPlan(e.fs, e.dir); errors.Is(err, format.ErrNewer) {
		return err
	} else if err != nil || begun {
		return errors.Join(ErrRepairing, err)
	}
	if err := checkVersions(e.fs, e.dir); err != nil {
		return err
	}
	if err := dropPictures(e.fs, e.dir); err != nil {
		return err
	}
	if err := dropBallast(e.fs, e.dir); err != nil {
		return err
	}
	used, err := journal.Used(e.fs, e.fs.PathJoin(e.dir, journalDir))
	if err != nil {
		return err
	}
	e.archive, err = archive.Open(e.fs, e.fs.PathJoin(e.dir, archiveDir), archive.Options{
		CacheSize: e.opts.CacheSize, Logger: e.log, OnFatal: e.fail, MustExist: used, Mirror: e.fs.PathJoin(e.dir, mirrorFile), Stop: e.stopped})
	if err != nil {
		return err
	}
	return e.recover()
}

// asDamage marks an error that comes from damaged files.
func asDamage(err error) error {
	_, inArchive := errors.AsType[*archive.DamageError](err)
	_, inJournal := errors.AsType[*journal.CorruptionError](err)
	if inArchive || inJournal || errors.Is(err, ErrRepairing) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// makeDir creates a data directory and makes its name durable. It is the owner's alone:
// the files in it have the streams in the clear, whatever clients have to show. One that
// is there keeps its permissions.
func makeDir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	parent, err := fs.OpenDir(fs.PathDir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func (e *Engine) closeFiles() error {
	var errs []error
	if e.journal != nil {
		errs = append(errs, e.journal.Close())
	}
	if e.archive != nil {
		errs = append(errs, e.archive.Close())
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	return errors.Join(errs...)
}

// Close makes what was accepted durable, moves it into the archive and closes
// the files. It is idempotent. Changes asked for meanwhile are refused.
func (e *Engine) Close() error {
	e.close.Do(func() {
		e.closing.Store(true)
		close(e.stopped)
		e.flush.progress()
		e.workers.Wait()
		pictures := e.pictures.close()
		var err error
		tight, _ := e.space.tight(e.flush.tails.Load())
		switch {
		case e.failed() != nil:
		case tight:
			e.log.Warn("the disk is full: what is not in the archive yet stays in the journal")
			err = e.journal.Note()
		default:
			err = e.flushAll()
		}
		e.closed = errors.Join(err, pictures, e.closeFiles())
	})
	return e.closed
}

// fail stops the engine: the disk did something that makes going on unsafe.
func (e *Engine) fail(err error) {
	if e.failure.CompareAndSwap(nil, &err) {
		e.log.Error("the store cannot go on", "err", err)
		e.flush.progress()
		e.opts.OnFatal(err)
	}
}

func (e *Engine) failed() error {
	if p := e.failure.Load(); p != nil {
		return &stream.Error{Kind: stream.Internal, Message: "the server's disk has failed", Err: *p}
	}
	return nil
}

var errClosing = &stream.Error{Kind: stream.ShuttingDown, Message: "the server is shutting down"}

// Bounds of a record's data, in bytes.
const (
	maxRecord   = 512 << 20 // refused as too large above it
	smallRecord = 64 << 10  // there is room in the queue that only small ones may use
)

// admit reserves room in the queue for a change of so many bytes, or says why it
// may not be taken at all. A change that frees space is taken on a full disk too.
func (e *Engine) admit(size int, frees bool) (reserved int64, err error) {
	switch {
	case e.failure.Load() != nil:
		return 0, e.failed()
	case e.closing.Load():
		return 0, errClosing
	case size > maxRecord:
		return 0, &stream.Error{Kind: stream.TooLarge, Message: "the data are larger than one record may be"}
	case !frees && e.space.full():
		return 0, diskFull()
	}
	reserved = int64(size)
	limit := e.opts.MaxQueued
	if size > smallRecord {
		limit -= limit / 4
	}
	if queued := e.open.queued.Add(reserved); queued > limit && queued > reserved {
		e.open.queued.Add(-reserved)
		return 0, busy()
	}
	return reserved, nil
}

func diskFull() error {
	return &stream.Error{Kind: stream.DiskFull, Message: "the server's disk is full"}
}

func busy() error {
	return &stream.Error{Kind: stream.Busy, Message: "too many changes are waiting for the disk"}
}

func (e *Engine) newIdentity() (stream.ID, stream.Incarnation) {
	return stream.ID(e.nextID.Add(1) - 1), stream.NewIncarnation(rand.Uint64())
}

func now() int64 { return time.Now().UnixNano() }
