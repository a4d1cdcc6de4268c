// Package wire holds the encodings that the server and the client share: header
// and parameter names, number and time grammars, media types, query strings,
// cursors, entity tags, SSE events and the framing of JSON messages. Section
// numbers (§) are those of the protocol text, PROTOCOL.md.
//
// It turns bytes into values and values into bytes, and that is all. It does
// no I/O, keeps no state between calls, starts no goroutine, reads no clock and
// knows neither streams nor net/http; what a value means for a stream is decided
// elsewhere.
//
// Functions named Append… extend dst and return it; dst must not overlap the
// other arguments, and only bytes from len(dst) on are written. No decoder
// panics, whatever its input, and each takes time linear in the input's length.
// Every function may be called by any number of goroutines at once.
package wire
