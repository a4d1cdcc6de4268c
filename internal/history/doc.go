// Package history records what concurrent clients of a server ask and are told,
// and decides whether it can be explained: whether there is an order of all
// requests, one after the other, each at a moment between its sending and its
// answer, in which a server that does one thing at a time would have given the
// same answers (linearizability). Porcupine looks for that order.
//
// The model of such a server ([world]) is written from the protocol's text and
// shares nothing with package stream, so that an error there does not hide
// itself. What it knows of this server beyond the protocol is how an offset is
// made up (docs/design/offsets.md) and which code a refusal has.
//
// A request without an answer that counts may have happened or not, at any time
// until the end of the process that it was sent to. What a reader has seen of an
// answer that broke off counts: it must be there.
//
// Two things are looser than one step at one moment. A fork is a look at its source
// for the point and then a decision. And when a lifetime ends is known up to the time
// that a request took.
//
// Streams that fork one another are checked together. They are a family: all
// paths up to the last slash.
//
// [Sim] runs histories on a simulated disk in virtual time; process tests run
// them on the real binary. A history that cannot be explained is written to a
// file that can be looked at in a browser and another one that can be checked
// again.
package history
