// Package metamorphic drives a store with random histories and compares it,
// step by step, with a small model: plain bytes a stream, and the rules of
// package stream applied to them.
//
// There are two kinds of histories. A [History] has one client, so the model
// knows the one right answer to every request, and the same seed gives the same
// trace. A [Crowd] has many at once; there every client keeps a ledger of what
// it was promised and what it saw, and an audit compares the ledgers with what
// is there. Both cut the power at any moment, also during recovery, and then
// ask for what the store promises: what was acknowledged is present, whole, in
// order and once; what was not is whole or absent; what somebody has seen stays.
//
// Everything runs in virtual time: the caller puts a run into a testing/synctest
// bubble and passes synctest.Wait as Settle. What is driven is a [Target]; an
// engine is one, a whole server behind its HTTP front can be another.
package metamorphic
