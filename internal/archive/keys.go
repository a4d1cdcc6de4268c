package archive

import (
	"encoding/binary"

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

// number reads the n-th big-endian number after a key's prefix byte.
func number(key []byte, n int) uint64 { return binary.BigEndian.Uint64(key[1+8*n:]) }
