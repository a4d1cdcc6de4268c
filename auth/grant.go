package auth

import (
	"errors"
	"fmt"
	"strings"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// Grant gives rights on all paths that a pattern matches.
type Grant struct {
	rights  stream.Right
	pattern glob.Pattern
}

// maxGrants is how many grants one caller may have.
const maxGrants = 256

// ParseGrant reads rights and a pattern with a colon between them, such as
// "read,append:orders/**".
func ParseGrant(text string) (Grant, error) {
	names, pattern, ok := strings.Cut(text, ":")
	if !ok {
		return Grant{}, errors.New("want rights:pattern, such as read,append:orders/**")
	}
	rights, ok := stream.ParseRight(names)
	if !ok {
		return Grant{}, errors.New("the rights are read, append, create, delete, subscribe and admin, with commas between them, or all")
	}
	p, err := glob.Parse(pattern)
	if err != nil {
		if e, ok := errors.AsType[*stream.Error](err); ok {
			err = errors.New(e.Message)
		}
		return Grant{}, err
	}
	return Grant{rights, p}, nil
}

// parseGrants reads several.
func parseGrants(words []string) ([]Grant, error) {
	if len(words) > maxGrants {
		return nil, fmt.Errorf("more than %d grants", maxGrants)
	}
	grants := make([]Grant, len(words))
	for i, word := range words {
		var err error
		if grants[i], err = ParseGrant(word); err != nil {
			return nil, err
		}
	}
	return grants, nil
}

// String gives what ParseGrant reads.
func (g Grant) String() string { return g.rights.String() + ":" + g.pattern.String() }
