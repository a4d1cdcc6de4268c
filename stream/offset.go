package stream

import (
	"encoding/binary"
	"encoding/hex"
)

// Incarnation tells apart the streams that live at one path one after another.
// It is random, 48 bits, and never 0.
type Incarnation uint64

// IncarnationBits is the width of an Incarnation.
const IncarnationBits = 48

// NewIncarnation makes an incarnation of random bits. It begins with one of the digits a
// to f: there are clients that take the second half of an offset for a decimal number
// and add one to it, and leave alone what is none.
func NewIncarnation(random uint64) Incarnation {
	const rest = IncarnationBits - 4
	first := 0xa + random>>rest%6
	return Incarnation(first<<rest | random&(1<<rest-1))
}

// MaxPosition is the largest position that an offset can name, in bytes of
// stored data. One position above it is kept free as "never minted".
const MaxPosition = 9_999_999_999_999_998

// Offset names a position in a stream (§8): Pos counts the stored bytes before
// it, Inc is the incarnation that minted it.
//
// Written out it has 33 characters: 16 decimal digits of the position, an
// underscore, 12 hex digits of the incarnation and 4 hex digits that check the
// other 28, so that an offset which a client made up, instead of keeping one
// that it was given, is refused rather than served from the middle of
// something. Offsets of one stream sort as strings in the order of positions.
type Offset struct {
	Pos uint64
	Inc Incarnation
}

// OffsetLen is the length of a written offset.
const OffsetLen = 16 + 1 + 16

// StartLiteral is the start of every stream, whatever its incarnation.
const StartLiteral = "0000000000000000_0000000000000000"

// check derives the last four hex digits. It guards against accident, not
// against malice: any offset is only ever used within the stream it is sent to.
func (o Offset) check() uint16 {
	h := (o.Pos+1)*0x9E3779B97F4A7C15 ^ uint64(o.Inc)*0xC2B2AE3D27D4EB4F
	h ^= h >> 29
	return uint16((h * 0xBF58476D1CE4E5B9) >> 48)
}

// IsStart reports whether o is the start of any stream.
func (o Offset) IsStart() bool { return o == Offset{} }

// Append writes the offset to dst.
func (o Offset) Append(dst []byte) []byte {
	if o.IsStart() {
		return append(dst, StartLiteral...)
	}
	var b [OffsetLen]byte
	for i, p := 15, o.Pos; i >= 0; i-- {
		b[i] = '0' + byte(p%10)
		p /= 10
	}
	b[16] = '_'
	var tail [8]byte
	binary.BigEndian.PutUint64(tail[:], uint64(o.Inc)<<16|uint64(o.check()))
	hex.Encode(b[17:], tail[:])
	return append(dst, b[:]...)
}

// String gives the offset as clients see it.
func (o Offset) String() string { return string(o.Append(make([]byte, 0, OffsetLen))) }

// ParseOffset reads a written offset. Anything that no server of this kind
// could have minted is refused with [InvalidOffset].
func ParseOffset(s string) (Offset, error) {
	if s == StartLiteral {
		return Offset{}, nil
	}
	if len(s) != OffsetLen || s[16] != '_' {
		return Offset{}, refuse(InvalidOffset, "an offset has the form that the server returned in Stream-Next-Offset")
	}
	var o Offset
	for i := range 16 {
		d := s[i] - '0'
		if d > 9 {
			return Offset{}, refuse(InvalidOffset, "an offset starts with 16 digits")
		}
		o.Pos = o.Pos*10 + uint64(d)
	}
	var low uint64
	for i := 17; i < OffsetLen; i++ {
		d, ok := hexDigit(s[i])
		if !ok {
			return Offset{}, refuse(InvalidOffset, "an offset ends with 16 lower-case hex digits")
		}
		low = low<<4 | uint64(d)
	}
	o.Inc = Incarnation(low >> 16)
	if o.Inc == 0 || o.Pos > MaxPosition || uint16(low) != o.check() {
		return Offset{}, refuse(InvalidOffset, "this offset was never returned by a server")
	}
	return o, nil
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
