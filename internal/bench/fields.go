package bench

import (
	"bytes"
	"fmt"
)

// field reads one header line. Only the fields that steer the generator are kept.
func (r *response) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' || bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("%w: field %.40q", errHead, line)
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	switch {
	case named(name, "content-length"):
		return r.length(value)
	case named(name, "transfer-encoding"):
		if r.chunked || !named(value, "chunked") {
			return fmt.Errorf("%w: Transfer-Encoding %.40q", errHead, value)
		}
		r.chunked = true
	case named(name, "connection"):
		r.close = named(value, "close") || r.close && !named(value, "keep-alive")
	case named(name, "stream-next-offset"):
		r.offset = append(r.offset[:0], value...)
	case named(name, "stream-cursor"):
		r.cursor = append(r.cursor[:0], value...)
	case named(name, "stream-up-to-date"):
		r.upToDate = named(value, "true")
	case named(name, "stream-closed"):
		r.closed = named(value, "true")
	}
	return nil
}

func (r *response) length(value []byte) error {
	n, ok := decimal(value)
	if !ok || r.sized && n != r.left {
		return fmt.Errorf("%w: Content-Length %.40q", errHead, value)
	}
	r.sized, r.left = true, n
	return nil
}

// named compares a field's name, or a word, with one written in lower case.
func named(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// decimal reads digits only, up to what no body reaches.
func decimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 17 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// feedLine takes one line of the chunked framing: a size, the CRLF that ends a
// chunk's data, or a trailer field.
func (r *response) feedLine(p []byte) (int, error) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		if len(r.carry)+len(p) > maxHead {
			return 0, fmt.Errorf("%w: a line of more than %d bytes", errChunk, maxHead)
		}
		r.carry = append(r.carry, p...)
		return len(p), nil
	}
	line := p[:end+1]
	if len(r.carry) > 0 {
		r.carry = append(r.carry, line...)
		line = r.carry
		r.carry = r.carry[:0]
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return 0, fmt.Errorf("%w: line %.40q", errChunk, line)
	}
	return end + 1, r.chunkLine(line[:len(line)-2])
}

func (r *response) chunkLine(line []byte) error {
	switch {
	case r.state == inTrailer:
		if len(line) == 0 {
			r.state = complete
		}
	case r.state == inChunkEnd:
		if len(line) != 0 {
			return fmt.Errorf("%w: %.40q after a chunk's data", errChunk, line)
		}
		r.state = inChunkSize
	default:
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, ok := hexadecimal(bytes.TrimRight(size, " \t"))
		if !ok {
			return fmt.Errorf("%w: size %.40q", errChunk, line)
		}
		r.left, r.state = n, inChunkData
		if n == 0 {
			r.state = inTrailer
		}
	}
	return nil
}

// hexadecimal reads hex digits only, up to what no chunk reaches.
func hexadecimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 12 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, true
}
