package history

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Bytes are content. As JSON they are text in which long runs of one byte, and
// whatever is not plain ASCII, are written as «byte×count».
type Bytes string

const (
	runOpen  = "«"
	runTimes = "×"
	runClose = "»"
	shortRun = 12 // shorter ones stay as they are
)

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal(b.runs()) }

func (b Bytes) runs() string {
	var out strings.Builder
	for i := 0; i < len(b); {
		n := 1
		for i+n < len(b) && b[i+n] == b[i] {
			n++
		}
		plain := b[i] >= ' ' && b[i] < 0x7f || b[i] == '\n'
		if n < shortRun && plain {
			n = 1
			out.WriteByte(b[i])
		} else {
			fmt.Fprintf(&out, "%s%02x%s%d%s", runOpen, b[i], runTimes, n, runClose)
		}
		i += n
	}
	return out.String()
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(in []byte) error {
	var s string
	if err := json.Unmarshal(in, &s); err != nil {
		return err
	}
	var out strings.Builder
	for {
		plain, rest, more := strings.Cut(s, runOpen)
		out.WriteString(plain)
		if !more {
			*b = Bytes(out.String())
			return nil
		}
		run, after, _ := strings.Cut(rest, runClose)
		hex, count, _ := strings.Cut(run, runTimes)
		c, err := strconv.ParseUint(hex, 16, 8)
		if err != nil {
			return fmt.Errorf("run %q: %w", run, err)
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("run %q: %w", run, err)
		}
		out.WriteString(strings.Repeat(string([]byte{byte(c)}), n))
		s = after
	}
}

// brief shows content in a line of a picture.
func (b Bytes) brief() string {
	const most = 60
	s := b.runs()
	if len(s) > most {
		s = s[:most/2] + "…" + s[len(s)-most/2:]
	}
	return fmt.Sprintf("%d bytes %q", len(b), s)
}

// text is the stored content of a stream. It never changes: what is added makes
// another text that shares this one. nil is empty.
type text struct {
	prev *text
	data string
	end  int
	sum  uint64 // of all bytes up to end, however they came
}

const sumBase = 0x100000001b3

func (t *text) len() int {
	if t == nil {
		return 0
	}
	return t.end
}

func (t *text) checksum() uint64 {
	if t == nil {
		return 1
	}
	return t.sum
}

func (t *text) add(data string) *text {
	if data == "" {
		return t
	}
	sum := t.checksum()
	for i := range len(data) {
		sum = sum*sumBase + uint64(data[i]) + 1
	}
	return &text{prev: t, data: data, end: t.len() + len(data), sum: sum}
}

// cut gives the first n bytes.
func (t *text) cut(n int) *text {
	for t != nil && t.prev.len() >= n {
		t = t.prev
	}
	if t == nil || t.end <= n {
		return t
	}
	return t.prev.add(t.data[:n-t.prev.len()])
}

// has reports whether data stand at a position.
func (t *text) has(from int, data string) bool {
	if from < 0 || from+len(data) > t.len() {
		return false
	}
	for t = t.cutAbove(from + len(data)); len(data) > 0; t = t.prev {
		start := t.prev.len()
		end := from + len(data) - start // in t.data
		if start <= from {
			return t.data[from-start:end] == data
		}
		if t.data[:end] != data[start-from:] {
			return false
		}
		data = data[:start-from]
	}
	return true
}

// cutAbove gives the shortest part that ends at n or above.
func (t *text) cutAbove(n int) *text {
	for t != nil && t.prev.len() >= n {
		t = t.prev
	}
	return t
}

// from gives the bytes from a position on.
func (t *text) from(pos int) string {
	var parts []string
	for ; t.len() > pos; t = t.prev {
		parts = append(parts, t.data[max(0, pos-t.prev.len()):])
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	return b.String()
}

// equal compares by length and checksum.
func (t *text) equal(u *text) bool { return t.len() == u.len() && t.checksum() == u.checksum() }
