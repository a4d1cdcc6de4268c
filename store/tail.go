package store

import "sort"

// tail holds the published bytes of a stream that are not in the archive yet,
// as slices of the journal batches that brought them. It costs 32 bytes for
// each append besides the bytes.
type tail struct {
	start  uint64 // position of the first byte; everything before is archived
	pieces []piece
}

type piece struct {
	end  uint64 // position after its last byte
	data []byte
}

func (t *tail) end() uint64 {
	if len(t.pieces) == 0 {
		return t.start
	}
	return t.pieces[len(t.pieces)-1].end
}

func (t *tail) add(data []byte) {
	if len(data) > 0 {
		t.pieces = append(t.pieces, piece{end: t.end() + uint64(len(data)), data: data})
	}
}

// size is the number of bytes held.
func (t *tail) size() int64 { return int64(t.end() - t.start) }

// at gives the index of the piece that holds the byte at pos ≥ start.
func (t *tail) at(pos uint64) int {
	return sort.Search(len(t.pieces), func(i int) bool { return t.pieces[i].end > pos })
}

// read gives bytes from pos on, at most up to limit and until max bytes are
// together, as slices that stay valid.
func (t *tail) read(dst [][]byte, pos, limit uint64, max int) [][]byte {
	for i := t.at(pos); i < len(t.pieces) && pos < limit && max > 0; i++ {
		p := t.pieces[i]
		data := p.data[uint64(len(p.data))-(p.end-pos):]
		if over := p.end; over > limit {
			data = data[:uint64(len(data))-(over-limit)]
		}
		dst = append(dst, data)
		pos += uint64(len(data))
		max -= len(data)
	}
	return dst
}

// drop forgets the bytes before pos, which is the end of a piece.
func (t *tail) drop(pos uint64) {
	n := t.at(pos)
	rest := make([]piece, len(t.pieces)-n)
	copy(rest, t.pieces[n:])
	if len(rest) == 0 {
		rest = nil
	}
	t.start, t.pieces = pos, rest
}

// clear forgets everything.
func (t *tail) clear() { t.start, t.pieces = t.end(), nil }
