package wire

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

const (
	dataEvent    = "event: data\ndata:"
	controlEvent = "event: control\ndata:"
	dataField    = "\ndata:"
	eventEnd     = "\n\n"
)

// AppendTextEvent appends one SSE data event that carries data as text (§5.8). CR, LF
// and CRLF each end a line, and each line is a data field of its own, so no content
// can look like a field or an event; the client joins the lines with LF. A final
// line break gives an empty last line. Bytes that are not UTF-8 pass as they are;
// hold an unfinished character back with HoldBackUTF8.
func AppendTextEvent(dst, data []byte) []byte {
	dst = append(dst, dataEvent...)
	for {
		lf := bytes.IndexByte(data, '\n')
		if lf < 0 {
			break
		}
		// The CR of a CRLF is no line break of its own.
		dst = append(appendCRLines(dst, bytes.TrimSuffix(data[:lf], []byte{'\r'})), dataField...)
		data = data[lf+1:]
	}
	return append(appendCRLines(dst, data), eventEnd...)
}

// appendCRLines appends text that has no LF, with CR as line break, behind an
// opened data field.
func appendCRLines(dst, text []byte) []byte {
	for {
		cr := bytes.IndexByte(text, '\r')
		if cr < 0 {
			return appendLine(dst, text)
		}
		dst = append(appendLine(dst, text[:cr]), dataField...)
		text = text[cr+1:]
	}
}

// appendLine appends one line behind "data:". A parser drops one space there, so a
// line that starts with one gets another.
func appendLine(dst, line []byte) []byte {
	if len(line) > 0 && line[0] == ' ' {
		dst = append(dst, ' ')
	}
	return append(dst, line...)
}

// AppendJSONEvent appends one SSE data event whose data is the JSON array of the
// messages in framed, the stored form of FrameJSON (§5.8, §9.1). It is always a
// single data line: the newlines between messages are left out.
func AppendJSONEvent(dst, framed []byte) []byte {
	dst = append(append(dst, dataEvent...), '[')
	framed = framed[:max(0, len(framed)-len(messageEnd))]
	for {
		i := bytes.IndexByte(framed, '\n')
		if i < 0 {
			break
		}
		dst = append(dst, framed[:i]...)
		framed = framed[i+1:]
	}
	return append(append(append(dst, framed...), ']'), eventEnd...)
}

// AppendBase64Event appends one SSE data event with data in standard base64 with
// padding, on one line (§5.8). Each event decodes on its own.
func AppendBase64Event(dst, data []byte) []byte {
	dst = append(dst, dataEvent...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, eventEnd...)
}

// A Control is what an SSE control event says about the stream right behind the
// data event before it (§5.8).
type Control struct {
	NextOffset string // where the next read starts
	Cursor     string // see NextCursor; left out if empty or Closed
	UpToDate   bool   // the reader has everything there is
	Closed     bool   // the stream ends here; implies UpToDate
}

// AppendControlEvent appends the SSE control event for c (§5.8): one line of JSON in
// which members that would be false are left out.
func AppendControlEvent(dst []byte, c Control) []byte {
	dst = append(dst, controlEvent+`{"streamNextOffset":`...)
	dst = appendQuoted(dst, c.NextOffset)
	if c.Cursor != "" && !c.Closed {
		dst = append(dst, `,"streamCursor":`...)
		dst = appendQuoted(dst, c.Cursor)
	}
	if c.UpToDate || c.Closed {
		dst = append(dst, `,"upToDate":true`...)
	}
	if c.Closed {
		dst = append(dst, `,"streamClosed":true`...)
	}
	return append(dst, "}"+eventEnd...)
}

// AppendComment appends an SSE comment, which keeps a quiet connection open and is
// ignored by the client (§5.8). It must not stand inside an event.
func AppendComment(dst []byte) []byte {
	return append(dst, ":\n\n"...)
}

// appendQuoted appends s as a JSON string on one line.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// HoldBackUTF8 returns the length of the longest prefix of data that does not end
// inside a UTF-8 character, so that a text event never splits one (§5.8). At most 3
// bytes are held back, and only while they can still become a character: bytes
// that are invalid whatever follows are not.
func HoldBackUTF8(data []byte) int {
	for i := len(data) - 1; i >= 0 && i >= len(data)-(utf8.UTFMax-1); i-- {
		if !utf8.RuneStart(data[i]) {
			continue
		}
		if utf8.FullRune(data[i:]) {
			break
		}
		return i
	}
	return len(data)
}

// CutText returns where to end a page of at most limit bytes of text so that the
// next one does not start inside a UTF-8 character or between CR and LF. Data that
// is not longer than limit is one page, however it ends. The result is above 0
// for every limit from 4 on; below that it may be 0.
func CutText(data []byte, limit int) int {
	if len(data) <= limit {
		return len(data)
	}
	if limit <= 0 {
		return 0
	}
	if data[limit] == '\n' && data[limit-1] == '\r' {
		return limit - 1
	}
	return HoldBackUTF8(data[:limit])
}
