package durablestreams

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/webhook"
	"durablestreams/store"
	"durablestreams/subscription"
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
// itself; [ErrNewer] if a newer program has written the directory.
func Check(dir string) (*Report, error) {
	r, err := store.Check(vfs.Default, dir, subscription.CheckRow)
	if err != nil {
		return r, err
	}
	return r, checkKeys(dir, func(name string, err error) {
		r.Problems = append(r.Problems, Problem{Where: name, What: err.Error()})
	})
}

// Repair makes a damaged data directory openable, with everything that is still
// there. What is damaged is set aside, for an operator to look at: files of the
// archive, and of the journal everything from the damage on. It returns nothing if
// all is sound. One that has not come to its end has to be begun again. What a newer
// program has written it leaves alone: then it fails with [ErrNewer].
func Repair(dir string) (*Repaired, error) {
	if err := checkKeys(dir, func(string, error) {}); err != nil {
		return &Repaired{}, err
	}
	return store.Repair(vfs.Default, dir, subscription.CheckRow)
}

// checkKeys looks at the files of secrets. What is wrong with one that is there goes to
// bad; that a newer program has written it is the error.
func checkKeys(dir string, bad func(name string, err error)) error {
	fs := vfs.Default
	_, hooks := webhook.OpenKeys(fs, keyFile(fs, dir), nil)
	_, urls := readURLKey(fs, urlKeyFile(fs, dir))
	for _, k := range []struct {
		name string
		err  error
	}{{"keys/webhook", hooks}, {"keys/urls", urls}} {
		switch {
		case k.err == nil || errors.Is(k.err, os.ErrNotExist):
		case errors.Is(k.err, ErrNewer):
			return fmt.Errorf("%s: %w", k.name, k.err)
		default:
			bad(k.name, k.err)
		}
	}
	return nil
}
