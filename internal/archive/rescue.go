package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"durablestreams/internal/mirror"
	"durablestreams/stream"
)

// A row that cannot be read is in the mirror too. Finding it there means reading all
// of the mirror, so it is done seldom; whoever gets a row from there puts it into
// the archive again.

// rescueShare is the share of the time that may be spent on that, as a divisor.
const rescueShare = 10

// rescuer lets one search go on at a time, with pauses.
type rescuer struct {
	mu    sync.Mutex
	after time.Time
}

// ErrNoCopy says that the mirror cannot help, or not now.
var ErrNoCopy = errors.New("there is no second copy of the row")

// RescueAt gives the row of the stream at a path from the mirror, for a path whose
// rows cannot be read; nil if there is no such stream. Streams that are being
// changed must not be asked for.
func (a *Archive) RescueAt(p stream.Path) (*Row, error) {
	a.rescue.mu.Lock()
	defer a.rescue.mu.Unlock()
	began := time.Now()
	if began.Before(a.rescue.after) {
		return nil, fmt.Errorf("%w now", ErrNoCopy)
	}
	defer func() { a.rescue.after = time.Now().Add(rescueShare * time.Since(began)) }()
	name := string(nameKey(p))
	found, err := a.copies(func(key []byte) bool { return string(key) == name })
	if err != nil || found[name] == nil {
		return nil, err
	}
	if len(found[name]) != 8 {
		return nil, ErrNoCopy
	}
	id := stream.ID(binary.BigEndian.Uint64(found[name]))
	rows, err := a.Rescue(map[stream.ID]bool{id: true})
	if err != nil {
		return nil, err
	}
	if row := rows[id]; row != nil && row.State.Path == p {
		return row, nil
	}
	return nil, ErrNoCopy
}

// Rescue gives the rows of streams from the mirror, as far as they are there.
func (a *Archive) Rescue(ids map[stream.ID]bool) (map[stream.ID]*Row, error) {
	found, err := a.copies(func(key []byte) bool {
		return len(key) >= 9 && (key[0] == prefixState || key[0] == prefixProducers || key[0] == prefixAside) && ids[stream.ID(number(key, 0))]
	})
	if err != nil {
		return nil, err
	}
	rows := map[stream.ID]*Row{}
	for id := range ids {
		row, err := loadRow(id, func(key []byte, use func([]byte) error) error {
			if v := found[string(key)]; v != nil {
				return use(v)
			}
			return nil
		})
		if err == nil && row != nil {
			rows[id] = row
		}
	}
	for key := range found { // its row is older than what was set aside
		if key[0] == prefixAside {
			delete(rows, stream.ID(number([]byte(key), 0)))
		}
	}
	return rows, nil
}

func (a *Archive) copies(wanted func(key []byte) bool) (map[string][]byte, error) {
	if !a.hasCopy.Load() {
		return nil, ErrNoCopy
	}
	found, err := mirror.Find(a.space.FS, a.mirrorPath, false, wanted)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCopy, err)
	}
	return found, nil
}
