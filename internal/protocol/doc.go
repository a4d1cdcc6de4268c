// Package protocol is the Durable Streams protocol without a transport. A plain
// [Request] becomes an operation, and the operation gives a [Response] or, for
// live reads, a [Feed] that is stepped. Adapters (net/http, an event loop) only
// carry bytes: everything that a client can tell apart is decided here. Section
// numbers (§) are those of PROTOCOL.md.
//
// An adapter calls [Core.Begin] with the head of a request. It gets the answer at
// once, or an [Op] whose [Op.Mode] says what comes next:
//
//   - Write: read the body (at most [Op.MaxBody] bytes), call [Op.Submit],
//     wait until it says done, send [Op.Response];
//   - Read: send what [Op.Read] gives;
//   - Live: [Op.Open] a feed, step it, write out fully what a step gives, and
//     wait when the step says so. [Feed.Close] it in the end;
//   - ControlMode: read the body if it counts, send what [Op.Serve] gives.
//
// Nothing here starts a goroutine or sets a timer. Only Begin (if
// [Core.BeginWaits] says so), Read, Submit, Serve, Feed.Step and the blocks of a
// Response may wait for the disk, and Begin for what [Access] needs. What a stream is
// and which change is right is package stream's; storing is the [Store]'s.
//
// A Core may be used by any number of goroutines at once; an Op, a Response and
// a Feed belong to one request, and only a feed's wake function is called from
// elsewhere.
package protocol
