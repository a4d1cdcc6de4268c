package bench

import (
	"bytes"
	"errors"
	"fmt"
)

// maxHead bounds an answer's head. A server that sends more is not measured.
const maxHead = 64 << 10

var (
	errTruncated = errors.New("the connection closed inside an answer")
	errHead      = errors.New("malformed answer head")
	errChunk     = errors.New("malformed chunked body")
)

// framing tells how the end of an answer's body is found.
type framing uint8

const (
	inHead framing = iota
	inLength
	inChunkSize
	inChunkData
	inChunkEnd
	inTrailer
	untilClose
	complete
)

// response reads the answers of one HTTP/1.1 connection, one after the other, from
// pieces of any size. It is stricter than a browser: CRLF only, no folded lines, no
// conflicting lengths, so that a server that sends nonsense is found out.
type response struct {
	status   int
	close    bool // the server will close, or speaks HTTP/1.0
	upToDate bool
	closed   bool
	offset   []byte // Stream-Next-Offset
	cursor   []byte // Stream-Cursor

	state    framing
	headOnly bool // the request was a HEAD
	old      bool // HTTP/1.0
	sized    bool
	chunked  bool
	left     int64  // bytes left of the body or chunk
	carry    []byte // the beginning of a head or of a chunk's line
}

// reset makes ready for the next answer; headOnly says that it has no body whatever
// its head claims.
func (r *response) reset(headOnly bool) {
	r.status, r.close, r.upToDate, r.closed = 0, false, false, false
	r.offset, r.cursor = r.offset[:0], r.cursor[:0]
	r.state, r.headOnly, r.old, r.sized, r.chunked, r.left = inHead, headOnly, false, false, false, 0
	r.carry = r.carry[:0]
}

// feed takes bytes up to the next event: the end of the head, a piece of the body, or
// the end of the answer. It gives the number of bytes taken, which leaves what
// belongs to a later answer, and the piece, which is valid until p is overwritten.
// Call it until p is used up or the state is complete.
func (r *response) feed(p []byte) (n int, body []byte, err error) {
	switch r.state {
	case inHead:
		n, err = r.feedHead(p)
	case inLength:
		n = int(min(int64(len(p)), r.left))
		body = p[:n]
		if r.left -= int64(n); r.left == 0 {
			r.state = complete
		}
	case inChunkData:
		n = int(min(int64(len(p)), r.left))
		body = p[:n]
		if r.left -= int64(n); r.left == 0 {
			r.state = inChunkEnd
		}
	case inChunkSize, inChunkEnd, inTrailer:
		n, err = r.feedLine(p)
	case untilClose:
		n, body = len(p), p
	}
	return n, body, err
}

// eof tells that the connection ended. That is an error unless an answer without a
// length ended with it.
func (r *response) eof() error {
	if r.state == untilClose {
		r.state = complete
	}
	if r.state != complete {
		return errTruncated
	}
	return nil
}

// feedHead looks for the empty line, across pieces if need be.
func (r *response) feedHead(p []byte) (int, error) {
	if len(r.carry) == 0 {
		if end := bytes.Index(p, crlf2); end >= 0 {
			return end + 4, r.parseHead(p[:end+2])
		}
		if len(p) > maxHead {
			return 0, fmt.Errorf("%w: more than %d bytes", errHead, maxHead)
		}
		r.carry = append(r.carry, p...)
		return len(p), nil
	}
	before := len(r.carry)
	r.carry = append(r.carry, p[:min(len(p), maxHead)]...)
	end := bytes.Index(r.carry[max(before-3, 0):], crlf2)
	if end < 0 {
		if len(r.carry) > maxHead {
			return 0, fmt.Errorf("%w: more than %d bytes", errHead, maxHead)
		}
		return len(p), nil
	}
	end += max(before-3, 0)
	head := r.carry[:end+2]
	r.carry = r.carry[:0]
	return end + 4 - before, r.parseHead(head)
}

var crlf2 = []byte("\r\n\r\n")

// parseHead reads the status line and the fields that matter, each ended by CRLF, and
// decides how the body ends.
func (r *response) parseHead(head []byte) error {
	line, rest, _ := bytes.Cut(head, crlf2[:2])
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' || bytes.ContainsAny(line, "\r\n") {
		return fmt.Errorf("%w: status line %.40q", errHead, line)
	}
	status := 0
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return fmt.Errorf("%w: status line %.40q", errHead, line)
		}
		status = status*10 + int(c-'0')
	}
	r.status, r.old, r.close = status, line[7] == '0', line[7] == '0'
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\r')
		if end < 0 || end+1 >= len(rest) || rest[end+1] != '\n' {
			return fmt.Errorf("%w: a bare CR or LF", errHead)
		}
		if err := r.field(rest[:end]); err != nil {
			return err
		}
		rest = rest[end+2:]
	}
	return r.frame()
}

// frame applies the rules of RFC 9112, section 6.3.
func (r *response) frame() error {
	switch {
	case r.status < 100 || r.status == 101:
		return fmt.Errorf("%w: status %d", errHead, r.status)
	case r.status < 200:
		r.reset(r.headOnly) // an interim answer; the real one follows
	case r.sized && r.chunked:
		return fmt.Errorf("%w: both Content-Length and Transfer-Encoding", errHead)
	case r.old && r.chunked:
		return fmt.Errorf("%w: Transfer-Encoding in HTTP/1.0", errHead)
	case r.headOnly || r.status == 204 || r.status == 304:
		r.state = complete
	case r.chunked:
		r.state = inChunkSize
	case r.sized && r.left == 0:
		r.state = complete
	case r.sized:
		r.state = inLength
	default:
		r.state, r.close = untilClose, true
	}
	return nil
}
