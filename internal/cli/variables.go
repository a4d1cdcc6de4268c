package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// variableOf is the environment variable for a flag, of the same name; "" if it
// has none. Settings have one, and what is a setting stands in a group; what a
// command is to do in this one run (--repair) is said on its command line.
func variableOf(flag *kong.Flag) string {
	if flag.Group == nil {
		return ""
	}
	return "DS_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// variables gives kong the flags that stand in the environment and not on the
// command line. An empty variable counts as absent.
type variables struct {
	lookup func(string) (string, bool)
	used   []*kong.Flag
}

func (*variables) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (v *variables) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := variableOf(flag)
	if name == "" {
		return nil, nil
	}
	value, _ := v.lookup(name)
	if value == "" {
		return nil, nil
	}
	v.used = append(v.used, flag)
	return value, nil
}

// explain says where a bad value came from if it was the environment.
func (v *variables) explain(err error) error {
	for _, flag := range v.used {
		if strings.HasPrefix(err.Error(), "--"+flag.Name+": ") || strings.HasPrefix(err.Error(), "--"+flag.Name+" must be ") {
			return fmt.Errorf("%w (from %s)", err, variableOf(flag))
		}
	}
	return err
}

// describe is the help of a flag or argument, with its environment variable.
func describe(value *kong.Value) string {
	if value.Flag == nil || variableOf(value.Flag) == "" {
		return value.Help
	}
	return value.Help + " [$" + variableOf(value.Flag) + "]"
}
