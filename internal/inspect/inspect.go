// Package inspect shows what is in a data directory, for people and for
// programs: journal segments and records, streams, chunks, and small rows. It
// only reads, and it shows sizes, positions and what subscriptions wait for, never
// the data of a stream or a secret. The directory must not be in use.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/archive"
	"durablestreams/internal/journal"
	"durablestreams/store"
	"durablestreams/stream"
	"durablestreams/subscription"
)

// Part is a part of a data directory.
type Part string

// The parts.
const (
	Journal Part = "journal"
	Streams Part = "streams"
	Chunks  Part = "chunks"
	Rows    Part = "rows"
)

// partsInOrder lists all of them in the order in which they are shown.
var partsInOrder = []Part{Journal, Streams, Chunks, Rows}

// Options say what to show and how.
type Options struct {
	Parts []Part // default: all
	JSON  bool   // one JSON object a line instead of text
}

// item is one line of output.
type item interface{ text() string }

// Dir writes what is in the data directory to w.
func Dir(w io.Writer, fs vfs.FS, dir string, o Options) (err error) {
	if err := store.Restoring(fs, dir); err != nil {
		return err
	}
	if _, err := fs.Stat(fs.PathJoin(dir, "archive")); err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	lock, err := store.Lock(fs, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	parts := o.Parts
	if len(parts) == 0 {
		parts = partsInOrder
	}
	p := printer{w: w, json: o.JSON}
	for _, part := range parts {
		switch part {
		case Journal:
			err = p.journal(fs, fs.PathJoin(dir, "journal"))
		case Streams:
			err = p.archive(fs, fs.PathJoin(dir, "archive"), p.streams)
		case Chunks:
			err = p.archive(fs, fs.PathJoin(dir, "archive"), p.chunks)
		case Rows:
			err = p.archive(fs, fs.PathJoin(dir, "archive"), p.rows)
		default:
			err = fmt.Errorf("unknown part %q: there are %v", part, partsInOrder)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type printer struct {
	w    io.Writer
	json bool
}

func (p *printer) print(i item) error {
	if !p.json {
		_, err := fmt.Fprintln(p.w, Printable(i.text()))
		return err
	}
	return json.NewEncoder(p.w).Encode(i)
}

// Printable escapes what a terminal would not show, or would obey: a content type may
// hold such characters.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && s[i] >= utf8.RuneSelf && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

type segmentItem struct {
	Type     string `json:"type"` // "segment"
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	FirstLSN uint64 `json:"first_lsn"`
	Error    string `json:"error,omitempty"`
}

func (i segmentItem) text() string {
	if i.Error != "" {
		return fmt.Sprintf("segment %s  %d bytes  %s", i.Name, i.Size, i.Error)
	}
	return fmt.Sprintf("segment %s  %d bytes  from record %d", i.Name, i.Size, i.FirstLSN)
}

type recordItem struct {
	Type    string `json:"type"` // "record"
	LSN     uint64 `json:"lsn"`
	Kind    string `json:"kind"`
	Stream  uint64 `json:"stream,omitempty"`
	Time    string `json:"time,omitempty"`
	Path    string `json:"path,omitempty"`
	Pos     uint64 `json:"pos,omitempty"`
	Bytes   int    `json:"bytes"`
	Rows    int    `json:"rows,omitempty"`
	Close   bool   `json:"close,omitempty"`
	Soft    bool   `json:"soft,omitempty"`
	Expired bool   `json:"expired,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (i recordItem) text() string {
	if i.Error != "" {
		return fmt.Sprintf("  record %d  %s", i.LSN, i.Error)
	}
	if i.Stream == 0 {
		return fmt.Sprintf("  record %d  %s  %d of them, %d bytes", i.LSN, i.Kind, i.Rows, i.Bytes)
	}
	s := fmt.Sprintf("  record %d  %s  stream %d", i.LSN, i.Kind, i.Stream)
	if i.Path != "" {
		s += "  " + i.Path
	}
	if i.Bytes > 0 {
		s += fmt.Sprintf("  %d bytes at %d", i.Bytes, i.Pos)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{i.Close, "close"}, {i.Soft, "soft"}, {i.Expired, "expired"}} {
		if flag.set {
			s += "  " + flag.name
		}
	}
	return s + "  " + i.Time
}

type damageItem struct {
	Type    string `json:"type"` // "damage"
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
	Reason  string `json:"reason"`
}

func (i damageItem) text() string {
	return fmt.Sprintf("  DAMAGE in segment %d at offset %d: %s", i.Segment, i.Offset, i.Reason)
}

type noteItem struct {
	Type string `json:"type"` // "noted"
	LSN  uint64 `json:"lsn"`
}

func (i noteItem) text() string {
	return fmt.Sprintf("noted as durable up to record %d", i.LSN)
}

func (p *printer) journal(fs vfs.FS, dir string) error {
	sum, err := journal.Scan(fs, dir, &journal.Visitor{
		Segment: func(s journal.SegmentInfo) error {
			i := segmentItem{Type: "segment", Name: s.Name, Size: s.Size, FirstLSN: s.FirstLSN}
			if s.Err != nil {
				i.Error = s.Err.Error()
			}
			return p.print(i)
		},
		Record: func(_ journal.FrameInfo, r journal.Record) error { return p.print(describe(r)) },
		Damage: func(c *journal.CorruptionError) error {
			return p.print(damageItem{Type: "damage", Segment: c.Segment, Offset: c.Offset, Reason: c.Reason})
		},
	})
	if err != nil || sum.NotedLSN == 0 {
		return err
	}
	return p.print(noteItem{Type: "noted", LSN: sum.NotedLSN})
}

func describe(r journal.Record) recordItem {
	i := recordItem{Type: "record", LSN: r.LSN, Kind: stream.RecordKind(r.Kind).String()}
	if stream.RecordKind(r.Kind) == stream.RecordRows {
		rows, err := store.DecodeRows(r.Body)
		if err != nil {
			i.Error = err.Error()
		}
		i.Rows, i.Bytes = len(rows), len(r.Body)
		return i
	}
	rec, err := stream.DecodeRecord(stream.RecordKind(r.Kind), r.Body)
	if err != nil {
		i.Error = err.Error()
		return i
	}
	i.Stream, i.Time, i.Pos, i.Bytes = uint64(rec.ID), stamp(rec.Time), rec.Pos, len(rec.Data)
	i.Close, i.Soft, i.Expired = rec.Close, rec.Soft, rec.Expired
	if rec.Meta != nil {
		i.Path = string(rec.Meta.Path)
	}
	return i
}

func stamp(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }

func (p *printer) archive(fs vfs.FS, dir string, show func(*archive.Archive) error) error {
	a, err := archive.Open(fs, dir, archive.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(show(a), a.Close())
}

type streamItem struct {
	Type        string `json:"type"` // "stream"
	ID          uint64 `json:"id"`
	Path        string `json:"path"`
	ContentType string `json:"content_type"`
	Tail        string `json:"tail"`
	Bytes       uint64 `json:"bytes"` // its own, without inherited ones
	Closed      bool   `json:"closed"`
	Deleted     bool   `json:"deleted"`
	Forks       uint32 `json:"forks"`
	ForkOf      string `json:"fork_of,omitempty"`
	Producers   int    `json:"producers"`
	Created     string `json:"created"`
	Written     string `json:"written"`
	LSN         uint64 `json:"lsn"`
	Error       string `json:"error,omitempty"`
}

func (i streamItem) text() string {
	if i.Error != "" {
		return fmt.Sprintf("stream %d  UNREADABLE: %s", i.ID, i.Error)
	}
	s := fmt.Sprintf("stream %d  %s  %s  %d bytes  tail %s", i.ID, i.Path, i.ContentType, i.Bytes, i.Tail)
	if i.ForkOf != "" {
		s += "  fork of " + i.ForkOf
	}
	if i.Closed {
		s += "  closed"
	}
	if i.Deleted {
		s += "  deleted"
	}
	return s
}

func (p *printer) streams(a *archive.Archive) error {
	var failed error
	err := a.Rows(func(r *archive.Row) error {
		s := r.State
		i := streamItem{Type: "stream", ID: uint64(s.ID), Path: string(s.Path), ContentType: s.ContentType,
			Tail: s.TailOffset().String(), Bytes: s.Tail - s.Base(), Closed: s.Closed, Deleted: s.Deleted,
			Forks: s.Forks, Producers: s.ProducerCount(), Created: stamp(s.CreatedAt), Written: stamp(s.WrittenAt), LSN: r.LSN}
		if s.Fork != nil {
			i.ForkOf = string(s.Fork.SourcePath)
		}
		return p.print(i)
	}, func(id stream.ID, err error) {
		failed = errors.Join(failed, p.print(streamItem{Type: "stream", ID: uint64(id), Error: fmt.Sprint(err)}))
	})
	return errors.Join(err, failed)
}

type chunkItem struct {
	Type   string `json:"type"` // "chunk"
	Stream uint64 `json:"stream"`
	Pos    uint64 `json:"pos"`
	Bytes  int    `json:"bytes"`
}

func (i chunkItem) text() string {
	return fmt.Sprintf("chunk of stream %d  %d bytes at %d", i.Stream, i.Bytes, i.Pos)
}

func (p *printer) chunks(a *archive.Archive) error {
	return a.AllChunks(func(c archive.Chunk, _ []byte) error {
		return p.print(chunkItem{Type: "chunk", Stream: uint64(c.ID), Pos: c.Pos, Bytes: c.Len})
	})
}

type rowItem struct {
	Type  string `json:"type"` // "row"
	Key   string `json:"key"`
	Bytes int    `json:"bytes"`
	Means string `json:"means,omitempty"`
}

func (i rowItem) text() string {
	s := fmt.Sprintf("row %q  %d bytes", i.Key, i.Bytes)
	if i.Means != "" {
		s += "  " + i.Means
	}
	return s
}

func (p *printer) rows(a *archive.Archive) (err error) {
	rows, err := a.SmallRows(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		key, value, err := rows.Next()
		if err != nil || key == nil {
			return err
		}
		means, _ := subscription.Describe(stream.Row{Key: key, Value: value})
		if err := p.print(rowItem{Type: "row", Key: string(key), Bytes: len(value), Means: means}); err != nil {
			return err
		}
	}
}
