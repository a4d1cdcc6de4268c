package stream

// Row is a small value that an engine keeps beside the streams, with the same
// durability. Whoever puts a row knows what it says; the engine does not.
type Row struct {
	Key   []byte
	Value []byte // nil: the row is taken away
}

// Change tells somebody who watches many streams what a decided record does to
// one of them.
type Change struct {
	Path    Path
	Created bool // first record of an incarnation
	Gone    bool // deleted, expired or soft-deleted
	Before  Offset
	After   Offset // the tails; Before of a create is its beginning, of a fork the fork point
}
