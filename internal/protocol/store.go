package protocol

import "durablestreams/stream"

// Store is what the protocol needs of an engine. All methods may be called at
// once from any number of goroutines. Errors wrap a [*stream.Error]; any other
// error is answered as internal and its text never reaches a client.
type Store interface {
	// Apply decides cmd at once and calls done.Complete exactly once when the
	// outcome is durable, possibly before Apply returns. It never blocks on the
	// disk for a stream in memory. The command belongs to the store until then;
	// the body's data are not needed any more when Apply returns.
	Apply(cmd stream.Command, done stream.Completion)

	// Probe decides cmd as Apply would and changes nothing: done gets the
	// refusal, or no error if Apply would have succeeded at that moment. It may
	// wait for the disk to load the stream.
	Probe(cmd stream.Command, done stream.Completion)

	// Cork says that several calls of Apply and then Uncork follow at once: the
	// store may wait for them to make one batch of all. It is a hint for speed.
	Cork()
	Uncork()

	// Stat gives the durable state of a stream. With touch it counts as a read
	// and renews a sliding lifetime. Errors: stream.NotFound, stream.Gone, and
	// those of the disk.
	Stat(path stream.Path, touch bool) (stream.Snapshot, error)

	// InMemory reports whether the stream at the path, and what a read from a
	// position on gives, can be had without the disk. It never waits for the
	// disk itself. The answer is a hint: it may be different a moment later.
	InMemory(path stream.Path, from uint64) bool

	// Read gives the stored bytes [from, to) of the snapshot, to ≤ snap.Tail. The
	// inherited data of a fork are stitched in. The blocks fail if the
	// stream is deleted meanwhile.
	Read(snap stream.Snapshot, from, to uint64) stream.Blocks

	// Watch calls wake whenever the durable state of the stream changes: data,
	// close, deletion. wake must not block; it may be called from any goroutine
	// and without a change. A watched stream does not expire. stop is
	// idempotent.
	Watch(snap stream.Snapshot, wake func()) (stop func())
}
