package durablestreams

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
)

// Report is what [Check] found.
type Report = store.Report

// Problem is something that is wrong, with its place.
type Problem = store.Problem

// Repaired is what [Repair] has done.
type Repaired = store.Repaired

// Cut is a piece that [Repair] has taken out of the journal and set aside.
type Cut = store.Cut

// Lost is a range of a stream's data that is not there any more.
type Lost = store.Lost

// Check reads the whole data directory dir, which no server may be using, and
// says what is wrong with it. It changes nothing. The error is about checking
// itself.
func Check(dir string) (*Report, error) { return store.Check(vfs.Default, dir) }

// Repair makes a damaged data directory openable, with everything that is still
// there. What is damaged is set aside, for an operator to look at: files of the
// archive, and of the journal everything from the damage on. It returns nothing if
// all is sound. One that has not come to its end has to be begun again.
func Repair(dir string) (*Repaired, error) { return store.Repair(vfs.Default, dir) }
