package wire

import "bytes"

// The functions here read what FrameJSON writes. On other bytes they stay in
// bounds, and the result means nothing.

// AppendJSONArray appends the JSON array of the messages in framed (§9.1), "[]" if
// there are none. The newlines between messages stay: they are white space there.
func AppendJSONArray(dst, framed []byte) []byte {
	dst = append(dst, '[')
	dst = append(dst, framed[:max(0, len(framed)-len(messageEnd))]...)
	return append(dst, ']')
}

// CutMessages returns the length of the longest prefix of framed that is at most
// limit bytes long and ends behind a whole message, 0 if the first message is
// already longer.
func CutMessages(framed []byte, limit int) int {
	return bytes.LastIndexByte(framed[:max(0, min(limit, len(framed)))], '\n') + 1
}

// NthMessageEnd returns the position just behind the n-th message of framed, counted
// from 1; it is 0 for n = 0. If framed has fewer messages, seen says how many and
// end is behind the last of them; otherwise seen is n.
func NthMessageEnd(framed []byte, n uint64) (end int, seen uint64) {
	for seen < n {
		i := bytes.IndexByte(framed[end:], '\n')
		if i < 0 {
			return end, seen
		}
		end += i + 1
		seen++
	}
	return end, seen
}
