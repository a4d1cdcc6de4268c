package archive

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"durablestreams/internal/salvage"
	"durablestreams/stream"
)

// With both copies of the rows damaged, the rows are gathered from whatever tables
// there are: of each the newest that can be found. What was changed or deleted
// since may show again.

// found is a row of a table.
type found struct {
	value   []byte
	lsn     uint64 // of a state row
	seq     uint64
	deleted bool
}

// newer reports whether a is newer than b. Tables at the bottom have lost their
// sequence numbers, state rows know their own age.
func (a found) newer(b found) bool {
	return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.seq, b.seq)) > 0
}

// gatherRows writes the newest rows that the tables have.
func (r *repair) gatherRows(paths []string) error {
	if err := r.clearRows(); err != nil {
		return err
	}
	rows := map[string]found{}
	for _, path := range paths {
		_, err := salvage.ReadTable(r.fs, path, func(p salvage.Point) error {
			if len(p.Key) == 0 || onlyChunks(p.Key) {
				return nil
			}
			f := found{seq: p.Seq, deleted: p.Deleted}
			if p.Key[0] == prefixState && len(p.Value) >= 8 {
				f.lsn = binary.BigEndian.Uint64(p.Value)
			}
			if old, seen := rows[string(p.Key)]; !seen || f.newer(old) {
				f.value = slices.Clone(p.Value)
				rows[string(p.Key)] = f
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	maps.DeleteFunc(rows, func(_ string, f found) bool { return f.deleted })
	r.deriveRows(rows)
	for key, f := range rows {
		if err := r.batch.Set([]byte(key), f.value, nil); err != nil {
			return err
		}
		if err := r.put(false); err != nil {
			return err
		}
	}
	return r.put(true)
}

// deriveRows makes the header, the names and the deadlines fit the states. Of two
// streams at a path the one with the greater number is the later one.
func (r *repair) deriveRows(rows map[string]found) {
	head := header{applied: r.Least}
	if h, err := decodeHeader(rows[string(headerKey)].value); err == nil {
		head = header{applied: max(h.applied, r.Least), nextID: h.nextID}
	}
	states := map[stream.Path]*Row{}
	for key, f := range rows {
		switch key[0] {
		case prefixDeadline:
			delete(rows, key)
		case prefixState:
			row, err := decodeRow(f.value)
			if err != nil || string(stateKey(row.State.ID)) != key {
				delete(rows, key)
				continue
			}
			if other := states[row.State.Path]; other == nil || other.State.ID < row.State.ID {
				states[row.State.Path] = row
			}
		}
	}
	for key, f := range rows {
		switch {
		case key[0] == prefixName && len(f.value) == 8:
			head.nextID = max(head.nextID, stream.ID(binary.BigEndian.Uint64(f.value))+1)
		case key[0] == prefixState:
			row, err := decodeRow(f.value)
			if err != nil || states[row.State.Path].State.ID != row.State.ID {
				delete(rows, key)
			}
		}
	}
	for key := range rows {
		if key[0] == prefixProducers {
			if _, kept := rows[string(prefixState)+key[1:]]; !kept {
				delete(rows, key)
			}
		}
	}
	for path, row := range states {
		id := row.State.ID
		head.nextID = max(head.nextID, id+1)
		rows[string(nameKey(path))] = found{value: binary.BigEndian.AppendUint64(nil, uint64(id))}
		if row.Indexed != stream.Never {
			rows[string(deadlineKey(row.Indexed, id))] = found{}
		}
	}
	rows[string(headerKey)] = found{value: head.encode()}
}
