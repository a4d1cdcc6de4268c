package fastpath

import (
	"net/http"
	"strconv"
	"time"

	"durablestreams/internal/protocol"
)

// appendHead writes the head of an answer.
func appendHead(dst []byte, r *protocol.Response, method string, date []byte, closes bool) []byte {
	dst = append(dst, statusLine(r.Status)...)
	dst = append(dst, date...)
	for i := range r.Fields {
		f := &r.Fields[i]
		dst = append(dst, f.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
		dst = append(dst, "\r\n"...)
	}
	switch {
	case !r.HasBody(method):
	case r.Length >= 0:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, r.Length, 10)
		dst = append(dst, "\r\n"...)
	default:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	if closes {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// statusLines are the ready-made status lines of all known statuses.
var statusLines = func() (lines [600]string) {
	for s := range lines {
		if text := http.StatusText(s); text != "" {
			lines[s] = "HTTP/1.1 " + strconv.Itoa(s) + " " + text + "\r\n"
		}
	}
	return lines
}()

func statusLine(status int) string {
	if status >= 0 && status < len(statusLines) && statusLines[status] != "" {
		return statusLines[status]
	}
	return "HTTP/1.1 " + strconv.Itoa(status) + " Status\r\n"
}

// appendDate writes the Date field.
func appendDate(dst []byte, now time.Time) []byte {
	dst = append(dst, "Date: "...)
	dst = now.UTC().AppendFormat(dst, http.TimeFormat)
	return append(dst, "\r\n"...)
}

// appendChunk writes a piece of a body of unknown length.
func appendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// lastChunk ends such a body.
const lastChunk = "0\r\n\r\n"
