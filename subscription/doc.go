// Package subscription keeps durable cursors over streams and wakes workers for
// what is behind them (§6, §7): which streams a subscription has, how far each is
// acked, who has been woken and holds the lease, and when something is tried again.
// It knows no HTTP, signs nothing and stores nothing itself; see [Ports].
//
// # Marks
//
// A linked stream without a row is acked up to its tail. A change that makes work
// pending writes a mark, the cursor, into the journal batch of the change itself, and
// the ack that reaches the tail takes it away. So rows and memory follow pending
// streams, not streams; a crash keeps data and mark or neither; and a stream that
// appears is linked before its first record.
//
// # Order
//
// A [state] is changed by pure transitions only, which say what rows make the change
// durable. The manager carries one out and puts its rows into the journal without
// letting its lock go, so that the journal has them in the order of decisions, also
// among the records of streams. What follows from a decision (an answer, a webhook
// call, a wake event) waits until its rows are durable, and with them everything
// that was decided before.
//
// # Wakes
//
// A pull-wake subscription is woken by the very change that makes it pending, and
// its wake event is appended under a producer tuple made of its own id and the
// generation, so that there is one event a generation however often it is written.
// A webhook is woken when there is room for a call, so its lease begins with the call.
// Another attempt of a delivery belongs to the same wake and tells the same, as long
// as the lease lasts and the server runs; after that it is a new wake.
//
// # Locks
//
// A stream's lock, then Manager.mu, then the engine's open batch, the glob index and
// the inbox. The manager never asks the engine for a stream with its lock held.
package subscription
