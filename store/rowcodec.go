package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"durablestreams/stream"
)

// Row is a small value under a key, beside the streams. A nil Value means that
// the row is to go; an empty one is a value.
type Row = stream.Row

// Bounds of a row in bytes. A key has at least one.
const (
	MaxRowKey   = 2<<10 - 1
	MaxRowValue = 64<<10 - 1
)

// checkRows says whether rows are within their bounds, and how large their
// record is at most.
func checkRows(rows []Row) (size int, err error) {
	for i := range rows {
		if err := checkRow(rows[i]); err != nil {
			return 0, &stream.Error{Kind: stream.TooLarge, Message: err.Error()}
		}
		size += len(rows[i].Key) + len(rows[i].Value) + 2*binary.MaxVarintLen32
	}
	return size + binary.MaxVarintLen64, nil
}

func checkRow(r Row) error {
	switch {
	case len(r.Key) == 0:
		return errors.New("a row needs a key")
	case len(r.Key) > MaxRowKey:
		return fmt.Errorf("a row's key has %d bytes, at most %d are possible", len(r.Key), MaxRowKey)
	case len(r.Value) > MaxRowValue:
		return fmt.Errorf("a row's value has %d bytes, at most %d are possible", len(r.Value), MaxRowValue)
	}
	return nil
}

// appendRows writes the body of a rows record. docs/format/records.md describes
// it; it must not change.
func appendRows(dst []byte, rows []Row) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(rows)))
	for _, r := range rows {
		dst = binary.AppendUvarint(dst, uint64(len(r.Key)))
		dst = append(dst, r.Key...)
		if r.Value == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(r.Value))+1)
		dst = append(dst, r.Value...)
	}
	return dst
}

var errRows = errors.New("malformed rows")

// DecodeRows reads the body of a journal record of kind [stream.RecordRows]. The
// rows alias it.
func DecodeRows(body []byte) ([]Row, error) {
	count, b, ok := takeUvarint(body)
	var rows []Row
	for ; ok && count > 0; count-- {
		var r Row
		var n uint64
		if n, b, ok = takeUvarint(b); !ok || n > uint64(len(b)) {
			return nil, errRows
		}
		r.Key, b = b[:n:n], b[n:]
		if n, b, ok = takeUvarint(b); !ok || n > uint64(len(b))+1 {
			return nil, errRows
		}
		if n > 0 {
			r.Value, b = b[:n-1:n-1], b[n-1:]
		}
		if checkRow(r) != nil {
			return nil, errRows
		}
		rows = append(rows, r)
	}
	if !ok || len(b) > 0 {
		return nil, errRows
	}
	return rows, nil
}

func takeUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}
