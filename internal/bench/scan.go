package bench

import (
	"bytes"
	"fmt"
)

// sink takes what a scan finds.
type sink interface {
	record(conn int, seq int64)
	alien(what string)
}

// scan cuts a stream's bytes, which come in pieces of any size, into records.
type scan struct {
	format  *format
	carry   []byte // an unfinished record
	scratch []byte
	state   scanState
	broken  bool // something alien came: what follows has no place
}

// scanState is where a JSON page stands.
type scanState uint8

const (
	beforeArray scanState = iota
	beforeValue           // after the bracket
	inValue
	afterValue
	afterComma
	afterArray
)

// reset makes ready for a stream's first byte.
func (s *scan) reset() {
	s.carry, s.state, s.broken = s.carry[:0], beforeArray, false
}

// write takes a piece and gives every record in it to the sink.
func (s *scan) write(p []byte, c sink) {
	for len(p) > 0 && !s.broken {
		if s.format.json && s.state != inValue {
			p = s.separator(p, c)
			continue
		}
		p = s.piece(p, c)
	}
}

// piece takes bytes of a record.
func (s *scan) piece(p []byte, c sink) []byte {
	n := min(s.format.size-len(s.carry), len(p))
	full := n == s.format.size-len(s.carry)
	if s.format.json { // white space may have been added
		end := bytes.IndexByte(p, '}')
		n, full = end+1, end >= 0
		if !full {
			n = len(p)
		}
		if len(s.carry)+n > 2*s.format.size {
			s.alien("a value that is no record", c)
			return nil
		}
	}
	if !full {
		s.carry = append(s.carry, p[:n]...)
		return p[n:]
	}
	record := p[:n]
	if len(s.carry) > 0 {
		s.carry = append(s.carry, record...)
		record = s.carry
	}
	s.finish(record, c)
	s.carry = s.carry[:0]
	return p[n:]
}

// finish takes a whole record.
func (s *scan) finish(record []byte, c sink) {
	s.state = afterValue
	if s.format.json && len(record) != s.format.size {
		record = bytes.Join(bytes.Fields(record), nil)
	}
	conn, seq, scratch, ok := s.format.parse(record, s.scratch)
	s.scratch = scratch
	if !ok {
		s.alien(fmt.Sprintf("no record of this run: %.40q", record), c)
		return
	}
	c.record(conn, seq)
}

// separator takes what stands between JSON values.
func (s *scan) separator(p []byte, c sink) []byte {
	switch b := p[0]; {
	case b == ' ' || b == '\t' || b == '\r' || b == '\n':
	case b == '[' && s.state == beforeArray:
		s.state = beforeValue
	case b == '{' && (s.state == beforeValue || s.state == afterComma):
		s.state = inValue
		return p
	case b == ',' && s.state == afterValue:
		s.state = afterComma
	case b == ']' && (s.state == beforeValue || s.state == afterValue):
		s.state = afterArray
	default:
		s.alien(fmt.Sprintf("malformed array at %.20q", p), c)
		return nil
	}
	return p[1:]
}

// endPage tells that an answer is complete. A JSON page is a whole array.
func (s *scan) endPage(c sink) {
	if s.broken || !s.format.json {
		return
	}
	if s.state != afterArray {
		s.alien("a page that is no whole array", c)
	}
	s.state = beforeArray
}

// end tells that the stream is read to its end.
func (s *scan) end(c sink) {
	if !s.broken && len(s.carry) > 0 {
		s.alien(fmt.Sprintf("%d bytes that are no whole record: %.40q", len(s.carry), s.carry), c)
	}
}

func (s *scan) alien(what string, c sink) {
	s.broken = true
	c.alien(what)
}
