package trace

import "durablestreams/internal/protocol"

// Write makes a span at once.
func Write(t *Traces, a protocol.Answer) { t.write(a, 0) }
