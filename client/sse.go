package client

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"durablestreams/internal/wire"
)

// event is one server-sent event. What has come of an event when the connection
// ends is none.
type event struct {
	name string
	data []byte
}

var errEventTooLarge = errors.New("an event of a live read is too large")

// eventReader takes an event stream apart as the HTML standard says.
type eventReader struct {
	r       *bufio.Reader
	limit   int64
	line    []byte
	started bool
	afterCR bool // an LF that comes now belongs to the line before
}

func newEventReader(r io.Reader, limit int64) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next event that has data.
func (e *eventReader) next() (event, error) {
	var ev event
	has := false
	for {
		line, err := e.readLine(int64(len(ev.data)))
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if has {
				return ev, nil
			}
			ev = event{} // a name alone is no event
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "event":
			ev.name = string(value)
		case "data":
			if has {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
			has = true
		}
	}
}

// readLine returns the next line without its end: CR, LF or both.
func (e *eventReader) readLine(before int64) ([]byte, error) {
	e.line = e.line[:0]
	for {
		if e.r.Buffered() == 0 {
			if _, err := e.r.Peek(1); err != nil {
				return nil, err // a line without an end is none
			}
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR {
			e.afterCR = false
			if chunk[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			end = len(chunk)
		}
		e.line = append(e.line, chunk[:end]...)
		if before+int64(len(e.line)) > e.limit {
			return nil, errEventTooLarge
		}
		if end == len(chunk) {
			_, _ = e.r.Discard(end)
			continue
		}
		e.afterCR = chunk[end] == '\r'
		_, _ = e.r.Discard(end + 1)
		if !e.started {
			e.started = true
			return bytes.TrimPrefix(e.line, []byte("\xef\xbb\xbf")), nil
		}
		return e.line, nil
	}
}

// parseControl reads the data of a control event.
func parseControl(data []byte) (wire.Control, error) {
	var c struct {
		StreamNextOffset string
		StreamCursor     string
		UpToDate         bool
		StreamClosed     bool
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return wire.Control{}, fmt.Errorf("control event: %w", err)
	}
	if c.StreamNextOffset == "" {
		return wire.Control{}, errors.New("control event without streamNextOffset")
	}
	return wire.Control{NextOffset: c.StreamNextOffset, Cursor: c.StreamCursor, UpToDate: c.UpToDate || c.StreamClosed, Closed: c.StreamClosed}, nil
}

// decodeBase64 decodes the data of one event, whose lines may be cut anywhere.
func decodeBase64(dst, data []byte) ([]byte, error) {
	data = bytes.ReplaceAll(data, []byte{'\n'}, nil)
	dst, err := base64.StdEncoding.Strict().AppendDecode(dst, data)
	if err != nil {
		return nil, fmt.Errorf("data event: %w", err)
	}
	return dst, nil
}
