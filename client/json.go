package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// JSONBatch is a part of a JSON stream.
type JSONBatch[T any] struct {
	Messages []T
	Offset   Offset // behind Messages
	UpToDate bool   // that was all there is at the moment
	Closed   bool   // that was all there will ever be
}

// ReadJSON is [Stream.Read] for a stream of JSON: its messages, decoded. A message
// that is no T ends it. With json.RawMessage each message keeps its bytes.
func ReadJSON[T any](ctx context.Context, s *Stream, opts *ReadOptions) iter.Seq2[JSONBatch[T], error] {
	return func(yield func(JSONBatch[T], error) bool) {
		for b, err := range s.Read(ctx, opts) {
			j := JSONBatch[T]{Offset: b.Offset, UpToDate: b.UpToDate, Closed: b.Closed}
			if err == nil && len(b.Data) > 0 {
				if err = json.Unmarshal(b.Data, &j.Messages); err != nil {
					err = fmt.Errorf("read %s: the messages before offset %s: %w", s.URL(), b.Offset, err)
				}
			}
			if err != nil {
				yield(JSONBatch[T]{}, err)
				return
			}
			if !yield(j, nil) {
				return
			}
		}
	}
}

// isEmptyArray tells whether text is the JSON array of nothing.
func isEmptyArray(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) >= 2 && text[0] == '[' && text[len(text)-1] == ']' && len(bytes.TrimSpace(text[1:len(text)-1])) == 0
}

// joinArrays makes one JSON array of two; what is no array is left for the decoder
// to refuse.
func joinArrays(a, b []byte) []byte {
	switch {
	case len(a) == 0 || isEmptyArray(a):
		return append(a[:0], b...)
	case isEmptyArray(b):
		return a
	}
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	if a[len(a)-1] != ']' || len(b) == 0 || b[0] != '[' {
		return append(a, b...)
	}
	return append(append(a[:len(a)-1], ','), b[1:]...)
}
