// Package fastpath serves plain HTTP/1.1 requests from event loops: no goroutine
// a connection, none for a live reader that waits.
//
// It is strict and small, and that is what makes it safe. It takes a request
// only if every byte of its head is of the plainest grammar and its body has a
// known, moderate length. At any doubt (chunked bodies, Expect, Upgrade, TLS,
// HTTP/2, folded or odd lines, large heads) it answers nothing itself but hands
// the connection, with the bytes already read, to net/http, where it stays.
// What a request means is package protocol's business, here as there.
//
// A loop never waits. Where an answer needs the disk, for streams that are not
// in memory and for creations and deletions, a goroutine of its own prepares
// it; large answers are sent by one. An answer to a write comes back from the
// committer through the loop's inbox.
//
// A connection handles one request at a time; what a client pipelines waits in
// its buffer. A connection that is idle or waits for a stream holds no buffer.
package fastpath
