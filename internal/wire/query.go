package wire

import "strings"

// A Query holds the parameters of a read (§5.6 to §5.8), decoded. Has… tells a
// parameter that was sent empty from one that was not sent.
type Query struct {
	Offset, Live, Cursor          string
	HasOffset, HasLive, HasCursor bool
}

// A QueryError says what is wrong with a parameter that the protocol knows. Its text
// is safe to show to a client.
type QueryError struct {
	Param  string // ParamOffset, ParamLive or ParamCursor
	Reason string // a fixed phrase
}

func (e *QueryError) Error() string { return "query parameter " + e.Param + ": " + e.Reason }

// ParseQuery reads the query part of a URL as it was sent, without the question
// mark. Names and values are decoded as in forms: percent escapes, and "+" for a
// space. Parameters that the protocol does not know are ignored, broken ones too. The
// error is a *QueryError: a known parameter given twice, or one with a broken
// escape. It allocates only when a value needs decoding, or for the error.
func ParseQuery(raw string) (Query, error) {
	var q Query
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		if name, ok := unescape(name); ok {
			if err := q.set(name, value); err != nil {
				return Query{}, err
			}
		}
	}
	return q, nil
}

// set stores the value of one parameter, as it was sent, under its decoded name.
func (q *Query) set(name, value string) error {
	var (
		param string // the constant, so that an error does not keep the query alive
		field *string
		has   *bool
	)
	switch name {
	case ParamOffset:
		param, field, has = ParamOffset, &q.Offset, &q.HasOffset
	case ParamLive:
		param, field, has = ParamLive, &q.Live, &q.HasLive
	case ParamCursor:
		param, field, has = ParamCursor, &q.Cursor, &q.HasCursor
	default:
		return nil
	}
	if *has {
		return &QueryError{Param: param, Reason: "given more than once"}
	}
	decoded, ok := unescape(value)
	if !ok {
		return &QueryError{Param: param, Reason: "broken percent escape"}
	}
	*field, *has = decoded, true
	return nil
}

// unescape decodes percent escapes and plus signs. It reports false for a percent
// sign without two hexadecimal digits.
func unescape(s string) (string, bool) {
	first := 0
	for first < len(s) && s[first] != '%' && s[first] != '+' {
		first++
	}
	if first == len(s) {
		return s, true
	}
	b := append(make([]byte, 0, len(s)), s[:first]...)
	for i := first; i < len(s); i++ {
		switch s[i] {
		case '+':
			b = append(b, ' ')
		case '%':
			if len(s)-i < 3 {
				return "", false
			}
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi > 15 || lo > 15 {
				return "", false
			}
			b = append(b, hi<<4|lo)
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b), true
}

// unhex returns the value of a hexadecimal digit, 255 for any other byte.
func unhex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
