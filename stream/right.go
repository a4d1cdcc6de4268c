package stream

import "strings"

// Right is a set of things that a caller may do to a stream.
type Right uint8

// The single rights.
const (
	MayRead      Right = 1 << iota // read, follow, look at the metadata, fork from
	MayAppend                      // append and close
	MayCreate                      // create, fork to
	MayDelete                      // delete
	MaySubscribe                   // have subscriptions
	MayAdmin                       // operate: list, count, purge
)

// rightNames are in the order of the bits.
var rightNames = []string{"read", "append", "create", "delete", "subscribe", "admin"}

// allRights is written so.
const allRights = "all"

// ParseRight reads what [Right.String] gives: names with commas between them, or
// "all".
func ParseRight(text string) (r Right, ok bool) {
	if text == allRights {
		return 1<<len(rightNames) - 1, true
	}
	for name := range strings.SplitSeq(text, ",") {
		bit, known := parseName(name)
		if !known {
			return 0, false
		}
		r |= bit
	}
	return r, true
}

func parseName(name string) (r Right, ok bool) {
	for i, n := range rightNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// String names the rights.
func (r Right) String() string {
	if r == 1<<len(rightNames)-1 {
		return allRights
	}
	var names []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Has reports whether all of these are among them.
func (r Right) Has(these Right) bool { return r&these == these }
