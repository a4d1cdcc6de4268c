package stream

// Command is a request to change a stream: *[Create], *[Append] or *[Delete].
type Command interface{ command() }

// Delete asks for the end of a stream (§5.4).
type Delete struct{ Path Path }

func (*Create) command() {}
func (*Append) command() {}
func (*Delete) command() {}

// Completion receives the outcome of a command, once, when everything that the
// answer tells is durable. Complete is called by the engine's own goroutines
// and must not block. err is nil or wraps an [*Error].
type Completion interface {
	Complete(res Result, err error)
}

// Snapshot is the durable state of a stream at one moment, as a reader may see
// it.
type Snapshot struct {
	*Meta
	Tail   uint64
	Closed bool
}

// TailOffset is the offset after the last durable byte.
func (s Snapshot) TailOffset() Offset { return s.OffsetAt(s.Tail) }

// Blocks gives the stored bytes of a stretch of a stream in order, block by
// block. Next returns io.EOF after the last one; any other error means that the
// rest cannot be had, and whoever passes the bytes on must not end politely. A
// block is valid until the next call and must not be written to.
type Blocks interface {
	Next() ([]byte, error)
	Close() error
}
