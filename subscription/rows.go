package subscription

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"durablestreams/internal/format"
	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// The stored form of subscriptions. docs/format/subscriptions.md describes it; what
// is written must be read by all later versions.
//
// A subscription has a main row, which makes it exist, a row for its run once it
// was woken, and one for each explicit link and each mark.

// rowPrefix begins the keys of all rows of this package. Behind it come the
// subscription's own id, a slash, the kind, and a path if the kind has one.
const rowPrefix = "sub/"

// rowKind is the kind of a row, as it stands in its key.
type rowKind byte

// The kinds, in the order in which a subscription's rows are read back.
const (
	mainRow  rowKind = 'a'
	linkRows rowKind = 'l'
	markRows rowKind = 'm'
	runRows  rowKind = 'r'
)

// ownLen is the length of a subscription's own id in a key, in hex digits.
const ownLen = 16

// rowVersion is the first byte of every value.
const rowVersion = 1

var errRow = errors.New("malformed row")

func (s *state) key(kind rowKind, path stream.Path) []byte {
	b := make([]byte, 0, len(rowPrefix)+ownLen+2+len(path))
	b = append(b, rowPrefix...)
	b = fmt.Appendf(b, "%0*x", ownLen, s.own)
	b = append(b, '/', byte(kind))
	return append(b, path...)
}

// parseKey takes a key apart.
func parseKey(key []byte) (own uint64, kind rowKind, path stream.Path, err error) {
	rest, ok := strings.CutPrefix(string(key), rowPrefix)
	if !ok || len(rest) < ownLen+2 || rest[ownLen] != '/' {
		return 0, 0, "", errRow
	}
	own, err = strconv.ParseUint(rest[:ownLen], 16, 64)
	kind, path = rowKind(rest[ownLen+1]), stream.Path(rest[ownLen+2:])
	switch kind {
	case mainRow, runRows:
		ok = path == ""
	case linkRows, markRows:
		ok = path != ""
	default:
		ok = false
	}
	if !ok || err != nil {
		return 0, 0, "", errRow
	}
	return own, kind, path, nil
}

func (s *state) mainRow() stream.Row {
	b := appendString([]byte{rowVersion}, s.id)
	b = appendString(b, s.root)
	b = binary.AppendVarint(b, s.created)
	b = append(b, s.hash[:]...)
	b = appendString(b, string(s.typ))
	b = appendString(b, s.pattern.String())
	b = appendString(b, s.url)
	b = appendString(b, string(s.wakeStream))
	b = binary.AppendUvarint(b, uint64(s.ttl.Milliseconds()))
	b = appendString(b, s.description)
	return stream.Row{Key: s.key(mainRow, ""), Value: b}
}

func (s *state) runRow() stream.Row {
	b := binary.AppendUvarint([]byte{rowVersion}, s.generation)
	b = append(b, byte(s.phase))
	b = appendString(b, s.wakeID)
	b = appendString(b, s.holder)
	b = binary.AppendVarint(b, s.lease)
	b = binary.AppendUvarint(b, uint64(s.retries))
	b = binary.AppendVarint(b, s.retryAt)
	return stream.Row{Key: s.key(runRows, ""), Value: b}
}

func (s *state) markRow(path stream.Path, acked stream.Offset) stream.Row {
	b := binary.AppendUvarint([]byte{rowVersion}, acked.Pos)
	b = binary.AppendUvarint(b, uint64(acked.Inc))
	return stream.Row{Key: s.key(markRows, path), Value: b}
}

// decodeMain reads a main row into a new state.
func decodeMain(own uint64, value []byte) (*state, error) {
	in := rowReader(value)
	s := &state{own: own, id: in.string(), root: in.string(), created: in.varint()}
	copy(s.hash[:], in.bytes(sha256.Size))
	s.typ = Type(in.string())
	pattern := in.string()
	s.url, s.wakeStream = in.string(), stream.Path(in.string())
	ttl := in.uvarint()
	s.description = in.string()
	if !in.whole() || s.typ != Webhook && s.typ != PullWake || ttl > uint64(MaxLease.Milliseconds()) {
		return nil, errRow
	}
	s.ttl = time.Duration(ttl) * time.Millisecond
	if pattern != "" {
		var err error
		if s.pattern, err = glob.Parse(pattern); err != nil {
			return nil, errRow
		}
	}
	return s, nil
}

func decodeRun(value []byte) (r run, err error) {
	in := rowReader(value)
	r.generation = in.uvarint()
	r.phase = phase(in.byte())
	r.wakeID, r.holder = in.string(), in.string()
	r.lease = in.varint()
	retries := in.uvarint()
	r.retries = uint32(retries)
	r.retryAt = in.varint()
	if !in.whole() || r.phase > held || (r.phase == idle) != (r.wakeID == "") || retries != uint64(r.retries) {
		return run{}, errRow
	}
	return r, nil
}

func decodeMark(value []byte) (acked stream.Offset, err error) {
	in := rowReader(value)
	acked = stream.Offset{Pos: in.uvarint(), Inc: stream.Incarnation(in.uvarint())}
	if !in.whole() || acked.Pos > stream.MaxPosition || acked.Inc >= 1<<stream.IncarnationBits {
		return stream.Offset{}, errRow
	}
	return acked, nil
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// reader takes values off a row; after a failure it only gives zeros.
type reader struct {
	b   []byte
	bad bool
}

// rowReader reads the version first.
func rowReader(value []byte) *reader {
	r := &reader{b: value}
	r.bad = r.byte() != rowVersion
	return r
}

// checkVersion returns a *format.VersionError if a newer program has written a row.
func checkVersion(value []byte) error {
	if len(value) > 0 && value[0] > rowVersion {
		return &format.VersionError{What: "a row of a subscription", Found: uint64(value[0]), Known: rowVersion}
	}
	return nil
}

// CheckRow says what is wrong with a row of the engine, if it is one of this package.
func CheckRow(row stream.Row) error {
	if !bytes.HasPrefix(row.Key, []byte(rowPrefix)) {
		return nil
	}
	if err := checkVersion(row.Value); err != nil {
		return err
	}
	own, kind, path, err := parseKey(row.Key)
	if err != nil {
		return err
	}
	if kind == mainRow {
		_, err = decodeMain(own, row.Value)
		return err
	}
	return new(state).restore(kind, path, row.Value)
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.bytes(width(n, r.b))
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.bytes(width(n, r.b))
	return v
}

// width turns the outcome of a varint into a number of bytes; more than there
// are if it was none.
func width(n int, b []byte) int {
	if n <= 0 {
		return len(b) + 1
	}
	return n
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	return string(r.bytes(int(n)))
}

// whole reports whether everything was there and nothing is left.
func (r *reader) whole() bool { return !r.bad && len(r.b) == 0 }
