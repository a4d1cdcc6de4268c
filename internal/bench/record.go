package bench

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
)

// A record is the body of one append and says whose it is:
//
//	bytes  RRRRRRRRCCCCSSSSSSSS<filler>KKKKKKKK
//	JSON   {"i":"RRRRRRRRCCCCSSSSSSSS","p":"<filler>","k":"KKKKKKKK"}
//
// R is the run, C the connection and S the number of its request, in hex; K is the
// CRC-32C of these three. The filler is cut from random text at a place that K
// decides, so that a record put together from two is found out.
const (
	runLength = 8
	idLength  = runLength + 4 + 8
	sumLength = 8
	poolSize  = 256 << 10

	jsonOpen   = `{"i":"`
	jsonFiller = `","p":"`
	jsonSum    = `","k":"`
	jsonClose  = `"}`

	minBytes = idLength + sumLength
	minJSON  = minBytes + len(jsonOpen) + len(jsonFiller) + len(jsonSum) + len(jsonClose)
)

// format makes and recognises the records of one run. It is read-only after its
// making and may be shared.
type format struct {
	run  string // runLength characters
	size int    // of a whole record
	json bool
	pool []byte // poolSize + size random letters
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// newFormat makes the format of a run of that name.
func newFormat(run string, size int, json bool) *format {
	f := &format{run: run, size: size, json: json, pool: make([]byte, poolSize+size)}
	random := rand.New(rand.NewPCG(1, 2)) // the same text in every run: servers differ, not bodies
	for i := range f.pool {
		f.pool[i] = letters[random.Uint32()&63]
	}
	return f
}

// castagnoli is the table of the CRC in every record.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendTo writes the record of a connection's request.
func (f *format) appendTo(b []byte, conn int, seq int64) []byte {
	if f.json {
		b = append(b, jsonOpen...)
	}
	b = append(b, f.run...)
	b = appendHex(b, uint64(conn), 4)
	b = appendHex(b, uint64(seq), 8)
	sum := crc32.Checksum(b[len(b)-idLength:], castagnoli)
	if !f.json {
		b = append(b, f.filler(sum, minBytes)...)
		return appendHex(b, uint64(sum), sumLength)
	}
	b = append(b, jsonFiller...)
	b = append(b, f.filler(sum, minJSON)...)
	b = append(b, jsonSum...)
	b = appendHex(b, uint64(sum), sumLength)
	return append(b, jsonClose...)
}

// filler gives the text of one record, which makes it as long as it has to be.
func (f *format) filler(sum uint32, without int) []byte {
	return f.pool[sum%poolSize:][:f.size-without]
}

// parse tells whose record this is. It is one only if every byte is as appendTo makes
// it; scratch is for that comparison.
func (f *format) parse(record, scratch []byte) (conn int, seq int64, scratchAfter []byte, ok bool) {
	id := record
	if f.json {
		if len(id) < len(jsonOpen) {
			return 0, 0, scratch, false
		}
		id = id[len(jsonOpen):]
	}
	if len(record) != f.size || string(id[:runLength]) != f.run {
		return 0, 0, scratch, false
	}
	c, okConn := hexadecimal(id[runLength : runLength+4])
	s, okSeq := hexadecimal(id[runLength+4 : idLength])
	if !okConn || !okSeq {
		return 0, 0, scratch, false
	}
	scratch = f.appendTo(scratch[:0], int(c), s)
	return int(c), s, scratch, bytes.Equal(record, scratch)
}

// contentType is the type of the streams that hold such records.
func (f *format) contentType() string {
	if f.json {
		return "application/json"
	}
	return "application/octet-stream"
}

const hexDigits = "0123456789abcdef"

// appendHex writes the low digits of v.
func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&15])
	}
	return b
}

// layout says which connection writes to which stream. With more connections than
// streams, several share one; with more streams, each connection goes round its own.
type layout struct {
	conns, streams int
}

// rounds is the number of streams a connection goes round.
func (l layout) rounds(conn int) int64 {
	if l.streams <= l.conns {
		return 1
	}
	return int64((l.streams - conn + l.conns - 1) / l.conns)
}

// streamOf is the stream of a connection's request.
func (l layout) streamOf(conn int, seq int64) int {
	if l.streams <= l.conns {
		return conn % l.streams
	}
	return conn + l.conns*int(seq%l.rounds(conn))
}

// writers lists the connections that write to a stream, and the first number and the
// distance of the requests with which they do.
func (l layout) writers(stream int) (conns []int, first, step int64) {
	if l.streams > l.conns {
		conn := stream % l.conns
		return []int{conn}, int64(stream / l.conns), l.rounds(conn)
	}
	for conn := stream; conn < l.conns; conn += l.streams {
		conns = append(conns, conn)
	}
	return conns, 0, 1
}
