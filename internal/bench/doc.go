// Package bench is a load generator for servers of the Durable Streams protocol. It
// knows a server only by its URL and asks nothing of it that the protocol does not
// promise, so any server can be measured and two can be compared.
//
// # What makes it cheap
//
// One thread drives many keep-alive connections over epoll (elsewhere a goroutine
// drives each): a request is a few copies into one buffer, an answer is read by a
// parser that allocates nothing. The generator's own CPU is printed beside every
// result, so that nobody has to believe it.
//
// # What makes it honest
//
//   - Every request carries the run's id, its connection and its number. Afterwards
//     everything is read back: what was acknowledged has to be there exactly once, in
//     the order of its connection, and nothing else but what was in doubt. If not, the
//     run fails.
//   - Only 2xx counts. Every other status, broken connection and time-out is counted
//     by name, and fails the run unless [Options.AllowErrors] is set.
//   - With a target rate, latency counts from the moment a request was due, not from
//     the moment it could be sent; what was due and never sent is reported.
//   - Bodies are filled with text that does not compress across requests.
//   - The disk's fdatasync time is measured before and after, beside the result.
//
// It does not start servers, pin CPUs or draw conclusions. It speaks plain HTTP/1.1,
// follows no redirect and connects to no address but those it was given.
//
// [Run] may be called from several goroutines; each call is a run of its own.
package bench
