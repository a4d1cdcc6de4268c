package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxJSONDepth is how many arrays and objects may stand inside each other in a JSON
// body, the outermost included. The tokeniser has the same bound, so a message that
// was taken can always be read again.
const MaxJSONDepth = 10000

// messageEnd follows each message in the stored form.
const messageEnd = ",\n"

// A JSONError says where and why a body is not a JSON value. Its text is made of
// fixed phrases and a number, so it can be shown to a client.
type JSONError struct {
	Offset int    // position in the body, in bytes from 0
	Reason string // one of a few fixed phrases
}

func (e *JSONError) Error() string {
	return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

const (
	reasonEmpty    = "empty body"
	reasonBOM      = "byte order mark"
	reasonUTF8     = "invalid UTF-8"
	reasonDepth    = "nested deeper than 10000 levels"
	reasonEnd      = "unexpected end"
	reasonTrailing = "data after the value"
	reasonControl  = "unexpected control character"
	reasonSyntax   = "syntax error"
)

// FrameJSON appends the messages of a JSON body to dst in the stored form and
// returns how many there are (§9.1). A body is one JSON value: an array gives its
// elements, one level deep, and anything else is one message. An empty array gives
// none, which is for the caller to judge.
//
// In the stored form each message is followed by a comma and a newline. White space
// between tokens is dropped, so the only newlines are those that end messages. The
// tokens keep their bytes: numbers of any size and spelling, names and their
// order and repetition, escapes, lone surrogate escapes among them.
//
// The error is a *JSONError, and dst then comes back with its old length: bad
// syntax, nothing or only white space, a byte order mark, bytes that are not UTF-8,
// more than one value, nesting beyond MaxJSONDepth.
func FrameJSON(dst, body []byte) (framed []byte, messages int, err error) {
	if !utf8.Valid(body) {
		return dst, 0, &JSONError{Offset: invalidUTF8At(body), Reason: reasonUTF8}
	}
	d := jsonDecoders.Get().(*jsonDecoder)
	framed, messages, end, err := d.frame(dst, body)
	if len(body) > maxPooledBody {
		d.reset(nil) // a pooled decoder must not keep a large body alive
	}
	jsonDecoders.Put(d)
	if err != nil {
		return dst, 0, explainJSON(body, end, err)
	}
	if rest := skipSpace(body, end); rest < len(body) {
		return dst, 0, &JSONError{Offset: rest, Reason: reasonTrailing}
	}
	return framed, messages, nil
}

// maxPooledBody is the size in bytes of the largest body that an idle decoder may
// still refer to.
const maxPooledBody = 64 << 10

// A jsonDecoder is a tokeniser over a body in memory, which it does not copy.
type jsonDecoder struct {
	buf bytes.Buffer
	dec jsontext.Decoder
}

var jsonDecoders = sync.Pool{New: func() any { return new(jsonDecoder) }}

// jsonOptions lets a message keep its bytes: duplicate names pass, and so do lone
// surrogate escapes, which the tokeniser counts as invalid UTF-8. FrameJSON checks
// the real UTF-8 itself.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func (d *jsonDecoder) reset(body []byte) {
	d.buf = *bytes.NewBuffer(body)
	d.dec.Reset(&d.buf, jsonOptions...)
}

// frame appends the messages of the value that body starts with and returns the
// position behind that value.
func (d *jsonDecoder) frame(dst, body []byte) (framed []byte, messages, end int, err error) {
	d.reset(body)
	if d.dec.PeekKind() != jsontext.KindBeginArray {
		dst, err = d.appendMessage(dst)
		return dst, 1, int(d.dec.InputOffset()), err
	}
	if _, err = d.dec.ReadToken(); err != nil {
		return dst, 0, 0, err
	}
	for d.dec.PeekKind() != jsontext.KindEndArray {
		if dst, err = d.appendMessage(dst); err != nil {
			return dst, 0, 0, err
		}
		messages++
	}
	_, err = d.dec.ReadToken()
	return dst, messages, int(d.dec.InputOffset()), err
}

func (d *jsonDecoder) appendMessage(dst []byte) ([]byte, error) {
	v, err := d.dec.ReadValue()
	if err != nil {
		return dst, err
	}
	return append(appendCompact(dst, v), messageEnd...), nil
}

// appendCompact appends the valid JSON value v without the white space between its
// tokens.
func appendCompact(dst, v []byte) []byte {
	start := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			for i++; v[i] != '"'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
		case c <= ' ':
			dst = append(dst, v[start:i]...)
			start = i + 1
		}
	}
	return append(dst, v[start:]...)
}

// explainJSON turns an error of the tokeniser into a JSONError; none of the
// tokeniser's own words come through. The tokeniser was at read or behind it.
func explainJSON(body []byte, read int, err error) *JSONError {
	at := read
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = int(se.ByteOffset)
	}
	at = min(max(at, 0), len(body))
	reason := reasonSyntax
	switch {
	case skipSpace(body, 0) == len(body):
		reason = reasonEmpty
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		at, reason = 0, reasonBOM
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), at == len(body):
		at, reason = len(body), reasonEnd
	case (body[at] == '[' || body[at] == '{') && depthAt(body, at) >= MaxJSONDepth:
		reason = reasonDepth
	case body[at] < ' ':
		reason = reasonControl
	}
	return &JSONError{Offset: at, Reason: reason}
}

// depthAt returns how many arrays and objects are open before body[end], where the
// body is valid up to there.
func depthAt(body []byte, end int) int {
	depth := 0
	for i := 0; i < end; i++ {
		switch body[i] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '"':
			for i++; i < end && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		}
	}
	return depth
}

// skipSpace returns the position of the first byte at or behind i that is not JSON
// white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func invalidUTF8At(b []byte) int {
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}
