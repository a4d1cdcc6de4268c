package cli

import (
	"github.com/alecthomas/kong"

	"durablestreams"
)

// ServeOptions gives the options that ds serve takes from a command line.
func ServeOptions(args []string, lookup func(string) (string, bool)) (*durablestreams.Options, error) {
	var c commands
	parser, err := kong.New(&c, kong.Resolvers(&variables{lookup: lookup}), kong.ExplicitGroups(groups))
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		return nil, err
	}
	return c.Serve.options(nil), nil
}
