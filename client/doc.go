// Package client is a client of Durable Streams servers, of this one and of any
// other that speaks the protocol: streams, readers that come back by
// themselves, idempotent producers and subscriptions.
//
// A [Client] is made for the root of a server's streams, a [Stream] is one of
// them:
//
//	c, err := client.New("http://127.0.0.1:8642/durable-streams/v1/stream", nil)
//	orders := c.Stream("orders/17")
//
// # Reading
//
// [Stream.Read] and [ReadJSON] are iterators. With Live set they follow the stream until it
// is closed or the context ends, over cut connections and restarts of the
// server: they go on behind the last whole batch, so every byte comes once and in
// order. Each [Batch] has the offset at which to go on later; who keeps it
// resumes there in another process.
//
// # Writing
//
// [Stream.Append] makes one request and is not repeated when its outcome is
// unknown, since that could append twice. A [Producer] may repeat: its batches are
// numbered, the server takes each once, and several are on their way at a
// time. Use it wherever a lost answer must cost neither data nor order.
//
// # Trouble
//
// What a server refuses is an [*Error], and errors.Is compares it with the kinds of
// package stream (stream.NotFound, stream.Closed). What did not get through is a
// [*NetworkError]. Network errors, 408, 429 and 5xx are tried again, after a pause
// that grows and is never shorter than the server's Retry-After, until the context
// ends or Options.GiveUpAfter has passed; any other 4xx is final.
//
// Every type may be used by any number of goroutines at once.
package client
