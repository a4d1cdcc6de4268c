package client

import (
	"io"

	"durablestreams/internal/wire"
)

// Events reads an event stream to its end.
func Events(r io.Reader, limit int64, yield func(name string, data []byte)) error {
	e := newEventReader(r, limit)
	for {
		ev, err := e.next()
		if err != nil {
			return err
		}
		yield(ev.name, ev.data)
	}
}

// ParseControl reads the data of a control event.
func ParseControl(data []byte) (wire.Control, error) { return parseControl(data) }

// DecodeBase64 decodes the data of an event.
func DecodeBase64(data []byte) ([]byte, error) { return decodeBase64(nil, data) }

// JoinArrays joins two JSON arrays.
func JoinArrays(a, b []byte) []byte { return joinArrays(a, b) }
