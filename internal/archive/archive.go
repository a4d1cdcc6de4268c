// Package archive keeps what the journal has let go: one Pebble store with a
// row for every stream's state and the stream's bytes in chunks.
//
// Durability comes from the caller's journal. The archive's own log is off: a
// batch is readable once applied and durable once [Archive.Sync] has returned,
// and until then the caller keeps its journal. After a crash the archive is as
// of some prefix of the batches, each whole or absent; every state row carries
// the LSN up to which it includes the journal, so the caller can fold the
// journal over it, whatever that prefix was.
//
// Reads may run at any time and concurrently; there is one writer.
package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/mirror"
	"durablestreams/stream"
)

// Options configure an archive. The zero value works.
type Options struct {
	CacheSize int64        // bytes of block cache; default 64 MiB
	Logger    *slog.Logger // default: discard
	OnFatal   func(error)  // called when the store cannot go on; the caller must stop
	ReadOnly  bool
	Mirror    string // file with a second copy of all rows; empty: none

	// Stop is closed when the caller is about to close the archive: from then on
	// nothing waits for space any more.
	Stop <-chan struct{}

	// MustExist refuses to make a new archive: the caller knows that there was
	// one. Pebble would take a directory that has lost its marker for a new one
	// and clear it.
	MustExist bool
}

// ErrClosed is the error of reads that meet a closed archive.
var ErrClosed = errors.New("the archive is closed")

// Archive is an open archive.
type Archive struct {
	db     *pebble.DB
	space  *spaceFS
	log    *slog.Logger
	opened header // as of opening
	header []byte // the row as it is now; of the writer

	// A second copy of the rows; of the writer. nil: there is to be none.
	mirror      *mirror.Log
	mirrorAgain time.Time // not to be written anew before
	mirrorPath  string
	hasCopy     atomic.Bool // the file has every row as it is; for all
	rescue      rescuer
	stop        <-chan struct{}

	mu      sync.Mutex // guards what follows
	readers int        // reads going on, walks included
	closed  bool
	idle    chan struct{} // closed when the last reader leaves a closed archive
}

// Row is a stream's state as of a journal position.
type Row struct {
	LSN      uint64 // the state includes every record of the stream up to here
	Indexed  int64  // deadline under which the stream stands in the index, or stream.Never
	State    *stream.State
	rowBytes int
}

// Open opens or creates the archive in dir. A [*DamageError] says that it cannot be
// trusted as it is.
func Open(fs vfs.FS, dir string, o Options) (*Archive, error) {
	if err := checkPebble(fs, dir); err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	space := newSpaceFS(fs, dir)
	space.fatal = o.OnFatal
	db, err := pebble.Open(dir, pebbleOptions(space, &o))
	if err != nil && isDamage(err) {
		err = &DamageError{What: "it does not open", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	a := &Archive{db: db, space: space, log: o.Logger, mirrorPath: o.Mirror, stop: o.Stop, idle: make(chan struct{})}
	if err := a.begin(&o); err != nil {
		return nil, errors.Join(fmt.Errorf("open archive: %w", err), a.Close())
	}
	space.trust()
	a.noteCopy()
	return a, nil
}

func pebbleOptions(fs *spaceFS, o *Options) *pebble.Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheSize == 0 {
		o.CacheSize = 64 << 20
	}
	log := logger{log: o.Logger, fatal: o.OnFatal}
	p := &pebble.Options{
		FS:                 fs,
		FormatMajorVersion: pebble.FormatNewest,
		DisableWAL:         true,
		CacheSize:          o.CacheSize,
		MemTableSize:       16 << 20,
		// Flushes come one a journal segment, not one a memtable, so a few
		// unflushed memtables are normal.
		MemTableStopWritesThreshold: 16,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                256,
		Logger:                      log,
		ReadOnly:                    o.ReadOnly,
		ErrorIfNotExists:            o.MustExist,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if fs.complain() { // it is tried again and again
					o.Logger.Error("archive background work failed", "err", err.Error())
				}
			},
			// Damage concerns those whose data it is: their reads fail, the store
			// goes on. Pebble's own default is to end the process.
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				fs.damaged.Store(true)
				o.Logger.Error("archive is damaged", "file", i.Path, "from", fmt.Sprintf("%x", i.Bounds.Start),
					"to", fmt.Sprintf("%x", i.Bounds.End.Key), "err", i.Details.Error())
			},
			CompactionEnd: func(i pebble.CompactionInfo) {
				if i.Err != nil { // Pebble tries again at once
					fs.compaction.failed()
				}
			},
			DiskSlow: func(i pebble.DiskSlowInfo) { o.Logger.Warn("archive disk is slow", "info", i.String()) },
		},
	}
	if size := fs.fileSize(); size > 0 {
		for i := range p.TargetFileSizes {
			p.TargetFileSizes[i] = size
		}
	}
	for i := range p.Levels {
		// Chunks are read back as they are; compressing them costs more CPU than
		// the disk space is worth to a server that is measured by CPU per read.
		p.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].BlockSize = 32 << 10
	}
	return p
}

// Applied is the journal position as of opening: every record up to it is in
// the archive.
func (a *Archive) Applied() uint64 { return a.opened.applied }

// NextID is a stream number, as of opening, above every one in the archive.
func (a *Archive) NextID() stream.ID { return a.opened.nextID }

// Sync makes every applied batch durable.
func (a *Archive) Sync() error {
	if err := a.flush(); err != nil {
		return fmt.Errorf("sync archive: %w", err)
	}
	defer a.noteCopy()
	return a.commitMirror()
}

// flush waits until Pebble has made everything durable, which tries again for as long
// as there is no space.
func (a *Archive) flush() error {
	done, err := a.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-a.space.broken:
		return a.space.why
	case <-a.stop:
	}
	for {
		if err := a.space.room(); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-a.space.broken:
			return a.space.why
		case <-time.After(flushAgain):
		}
	}
}

// Reclaim gives the space of streams that were deleted back at once. Files with
// nothing else in them go without any writing. What lies in files with other
// streams' data has to be rewritten. All of it takes some space itself and fails
// with ENOSPC where that is not there.
func (a *Archive) Reclaim(ctx context.Context, deleted []stream.ID) error {
	for _, id := range deleted {
		if err := a.space.room(); err != nil {
			return fmt.Errorf("reclaim archive space: %w", err)
		}
		if err := a.db.Excise(ctx, pebble.KeyRange{Start: chunkKey(id, 0), End: chunkKey(id+1, 0)}); err != nil {
			return fmt.Errorf("reclaim archive space: %w", err)
		}
	}
	for _, id := range deleted {
		if err := a.db.Compact(ctx, chunkKey(id, 0), chunkKey(id, math.MaxUint64), false); err != nil {
			return fmt.Errorf("reclaim archive space: %w", err)
		}
	}
	return nil
}

// enter begins a read; leave ends it. In between the store stays open.
func (a *Archive) enter() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.readers++
	return nil
}

func (a *Archive) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readers--
	if a.closed && a.readers == 0 {
		close(a.idle)
	}
}

func (a *Archive) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// closeWait is how long Close waits for walks that nobody ends.
const closeWait = 5 * time.Second

// Close closes the archive. Batches that were not synced may be lost. Reads that
// are going on fail at their next step; bytes they have given out must stay
// valid, so Close waits for them to end, and leaves the store open with an error
// if they do not.
func (a *Archive) Close() error {
	a.mu.Lock()
	a.closed = true
	readers := a.readers
	a.mu.Unlock()
	if readers > 0 {
		timeout := time.NewTimer(closeWait)
		defer timeout.Stop()
		select {
		case <-a.idle:
		case <-timeout.C:
			return errors.New("close archive: reads are still going on")
		}
	}
	close(a.space.closed)
	var err error
	if a.mirror != nil {
		err = a.mirror.Close()
	}
	closed := a.db.Close()
	if closed != nil && outOfRoom(closed) {
		// Pebble ends a log that holds nothing; what was synced is durable.
		a.log.Warn("no space to close the archive in order", "err", closed)
		closed = nil
	}
	if err := errors.Join(closed, err); err != nil {
		return fmt.Errorf("close archive: %w", err)
	}
	return nil
}

// Lookup gives the number of the stream at a path.
func (a *Archive) Lookup(p stream.Path) (id stream.ID, found bool, err error) {
	if err := a.enter(); err != nil {
		return 0, false, err
	}
	defer a.leave()
	b, closer, err := a.db.Get(nameKey(p))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look up stream: %w", err)
	}
	defer closer.Close()
	if len(b) != 8 {
		return 0, false, errors.New("look up stream: malformed name row")
	}
	return stream.ID(binary.BigEndian.Uint64(b)), true, nil
}

// Load gives a stream's row; nil if there is none.
func (a *Archive) Load(id stream.ID) (*Row, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	defer a.leave()
	return loadRow(id, a.use)
}

// LoadState is Load without the stream's producers.
func (a *Archive) LoadState(id stream.ID) (*Row, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	defer a.leave()
	return loadState(id, a.use)
}

// use hands over the value of a key, if there is one.
func (a *Archive) use(key []byte, use func([]byte) error) error {
	b, closer, err := a.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(use(b), closer.Close())
}

// Loader loads many rows as the archive was when it was made, each in a third of
// the time that [Archive.Load] takes. It is for one goroutine and must be closed.
type Loader struct {
	archive *Archive
	iter    *pebble.Iterator
}

// NewLoader makes a loader.
func (a *Archive) NewLoader() (*Loader, error) {
	if err := a.enter(); err != nil {
		return nil, err
	}
	iter, err := a.db.NewIter(nil)
	if err != nil {
		a.leave()
		return nil, fmt.Errorf("load streams: %w", err)
	}
	return &Loader{archive: a, iter: iter}, nil
}

// Close ends the loader.
func (l *Loader) Close() error {
	defer l.archive.leave()
	return l.iter.Close()
}

// Load gives a stream's row; nil if there is none.
func (l *Loader) Load(id stream.ID) (*Row, error) {
	return loadRow(id, l.get)
}

func (l *Loader) get(key []byte, use func([]byte) error) error {
	if !l.iter.SeekPrefixGE(key) {
		return l.iter.Error()
	}
	b, err := l.iter.ValueAndErr()
	if err != nil {
		return err
	}
	return use(b)
}

// loadRow puts a stream's row together. get hands over the value of a key, if
// there is one.
func loadRow(id stream.ID, get func(key []byte, use func([]byte) error) error) (*Row, error) {
	row, err := loadState(id, get)
	if err != nil || row == nil {
		return nil, err
	}
	err = get(producersKey(id), func(b []byte) error { return row.State.DecodeProducers(b) })
	if err != nil {
		return nil, fmt.Errorf("load producers of stream %d: %w", id, err)
	}
	return row, nil
}

// loadState is loadRow without the stream's producers.
func loadState(id stream.ID, get func(key []byte, use func([]byte) error) error) (row *Row, err error) {
	err = get(stateKey(id), func(b []byte) (err error) {
		row, err = decodeState(id, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load stream %d: %w", id, err)
	}
	return row, nil
}

// decodeState reads the row of a stream.
func decodeState(id stream.ID, b []byte) (*Row, error) {
	row, err := decodeRow(b)
	if err == nil && row.State.ID != id {
		err = fmt.Errorf("row is of stream %d", row.State.ID)
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}

func decodeRow(b []byte) (*Row, error) {
	if len(b) < 16 {
		return nil, errors.New("malformed state row")
	}
	s, err := stream.DecodeState(b[16:])
	if err != nil {
		return nil, err
	}
	return &Row{
		LSN:      binary.BigEndian.Uint64(b),
		Indexed:  int64(binary.BigEndian.Uint64(b[8:])),
		State:    s,
		rowBytes: len(b),
	}, nil
}

// logger passes Pebble's log on. Fatalf must not return: the store is in no
// state to go on, so the caller is told and the goroutine parks.
type logger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l logger) Infof(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

func (l logger) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("archive: "+format, args...)
	l.log.Error("archive cannot go on", "err", err)
	if l.fatal == nil {
		panic(err)
	}
	l.fatal(err)
	select {}
}
