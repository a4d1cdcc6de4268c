package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"durablestreams/stream"
)

// The key space. docs/format/archive.md describes it; do not change it without
// a new FormatVersion. Numbers are big-endian, so that keys sort as numbers.
const (
	prefixAside     = 'a' // id, LSN -> kind and body of a record that met a broken row
	prefixChunk     = 'c' // id, position -> bytes of the stream up to that position
	prefixDeadline  = 'd' // deadline, id -> nothing
	prefixName      = 'n' // path -> id
	prefixProducers = 'p' // id -> producers of the stream
	prefixSmall     = 'r' // key -> value of a small row
	prefixState     = 's' // id -> LSN, indexed deadline, state
)

// headerKey holds the version, the applied LSN and the next stream number.
var headerKey = []byte{'!'}

func idKey(prefix byte, id stream.ID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, uint64(id))
}

func stateKey(id stream.ID) []byte { return idKey(prefixState, id) }

func producersKey(id stream.ID) []byte { return idKey(prefixProducers, id) }

func nameKey(p stream.Path) []byte { return append([]byte{prefixName}, p...) }

// chunkKey names a chunk by its end, so that the chunk that holds a position is
// the first one after it: a search goes forward and touches no other stream.
func chunkKey(id stream.ID, end uint64) []byte {
	return binary.BigEndian.AppendUint64(idKey(prefixChunk, id), end)
}

func asideKey(id stream.ID, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(idKey(prefixAside, id), lsn)
}

// deadlineKey sorts by deadline; those before 1970 count as 1970.
func deadlineKey(deadline int64, id stream.ID) []byte {
	b := binary.BigEndian.AppendUint64([]byte{prefixDeadline}, uint64(max(deadline, 0)))
	return binary.BigEndian.AppendUint64(b, uint64(id))
}

func smallKey(key []byte) []byte { return append([]byte{prefixSmall}, key...) }

// behind is the first key after all that begin with prefix, which does not
// consist of 0xff alone.
func behind(prefix []byte) []byte {
	end := bytes.TrimRight(prefix, "\xff")
	end = bytes.Clone(end)
	end[len(end)-1]++
	return end
}

// number reads the n-th big-endian number after a key's prefix byte.
func number(key []byte, n int) uint64 { return binary.BigEndian.Uint64(key[1+8*n:]) }

// DescribeKey says for people what a key stands for.
func DescribeKey(key []byte) string {
	if len(key) == 0 {
		return "the beginning"
	}
	long := len(key) >= 9
	switch {
	case bytes.Equal(key, headerKey):
		return "the header"
	case key[0] == prefixName:
		return fmt.Sprintf("the name %q", key[1:])
	case key[0] == prefixSmall:
		return fmt.Sprintf("the row %q", key[1:])
	case key[0] == prefixSmall:
		return fmt.Sprintf("the row %q", key[1:])
	case key[0] == prefixState && long:
		return fmt.Sprintf("the state of stream %d", number(key, 0))
	case key[0] == prefixProducers && long:
		return fmt.Sprintf("the producers of stream %d", number(key, 0))
	case key[0] == prefixChunk && len(key) >= 17:
		return fmt.Sprintf("data of stream %d up to position %d", number(key, 0), number(key, 1))
	case key[0] == prefixAside && len(key) >= 17:
		return fmt.Sprintf("record %d set aside for stream %d", number(key, 1), number(key, 0))
	case key[0] == prefixDeadline && len(key) >= 17:
		return fmt.Sprintf("a deadline of stream %d", number(key, 1))
	}
	return fmt.Sprintf("key %x", key)
}
