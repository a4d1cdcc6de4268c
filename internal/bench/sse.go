package bench

import "bytes"

// events cuts the body of an SSE answer, which comes in pieces of any size, into
// events. Lines end in LF, CR LF or CR; a comment ends with its line.
type events struct {
	carry []byte // an unfinished event
	data  []byte // an event's data lines put together, if there are several
}

// maxEvent bounds one event.
const maxEvent = 64 << 20

// reset makes ready for a new answer.
func (e *events) reset() { e.carry = e.carry[:0] }

// write takes a piece and calls f for every event that is complete with it. It gives
// false if an event is too long to be true.
func (e *events) write(p []byte, f func(name, data []byte)) bool {
	if len(e.carry) > 0 {
		e.carry = append(e.carry, p...)
		p = e.carry
	}
	for {
		end, next := blankLine(p)
		if next == 0 {
			break
		}
		e.event(p[:end], f)
		p = p[next:]
	}
	e.carry = append(e.carry[:0], p...) // p may be the end of carry itself: append moves it
	return len(e.carry) <= maxEvent
}

// blankLine finds the first empty line: where the lines before it end and where what
// follows begins, or 0 if there is none yet.
func blankLine(p []byte) (end, next int) {
	for at := 0; ; {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return 0, 0
		}
		at += i + 1
		switch rest := p[at:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return at, at + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return at, at + 2
		}
	}
}

// event reads one event's lines.
func (e *events) event(lines []byte, f func(name, data []byte)) {
	var name, data []byte
	parts := 0
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = value
		case "data":
			if parts++; parts == 1 {
				data = value
				break
			}
			if parts == 2 {
				e.data = append(e.data[:0], data...)
			}
			e.data = append(append(e.data, '\n'), value...)
			data = e.data
		}
	}
	if len(name) > 0 || parts > 0 {
		f(name, data)
	}
}

// member finds a string member of a flat JSON object that a server wrote. Offsets
// have no characters that JSON escapes.
func member(object []byte, name string) []byte {
	_, rest, found := bytes.Cut(object, []byte(`"`+name+`"`))
	if !found {
		return nil
	}
	rest = bytes.TrimLeft(rest, ": \t")
	if len(rest) == 0 || rest[0] != '"' {
		return nil
	}
	value, _, found := bytes.Cut(rest[1:], []byte(`"`))
	if !found {
		return nil
	}
	return value
}
