package durablestreams

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// Report is what [Check] found.
type Report = store.Report

// Cut is a piece that [Repair] has taken out of the journal and set aside.
type Cut = store.Cut

// Check reads the whole data directory dir, which no server may be using, and
// says what is wrong with it. It changes nothing. The error is about checking
// itself.
func Check(dir string) (*Report, error) { return store.Check(vfs.Default, dir) }

// Repair makes a data directory openable whose journal is damaged, at the price
// of what follows the damage: that is set aside in files, for an operator to
// look at. It returns what was cut; nothing if the journal is sound.
func Repair(dir string) ([]Cut, error) { return store.Repair(vfs.Default, dir) }
