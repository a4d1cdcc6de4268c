package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"durablestreams/internal/config"
)

// configFlag is the name of the flag that names a settings file.
const configFlag = "config"

// isSetting tells settings, which stand in a group, from what a command is to do in
// this one run (--repair). Those are said on its command line only.
func isSetting(flag *kong.Flag) bool { return flag.Group != nil }

// variableOf is the environment variable for a flag, of the same name; "" if it
// has none.
func variableOf(flag *kong.Flag) string {
	if !isSetting(flag) {
		return ""
	}
	return "DS_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// kindOf is what stands behind a setting's name in a file.
func kindOf(flag *kong.Flag) config.Kind {
	switch target := flag.Target; {
	case target.Type() == reflect.TypeFor[size]():
		return config.Quantity
	case target.Type() == reflect.TypeFor[time.Duration]():
		return config.Text
	case target.Kind() == reflect.Bool:
		return config.Switch
	case target.Kind() == reflect.Slice:
		return config.List
	case target.CanInt():
		return config.Number
	}
	return config.Text
}

// settings gives kong the flags that are not on the command line: those in the
// environment, and then those in the settings file. What is empty there counts as
// absent.
type settings struct {
	lookup func(string) (string, bool)

	loaded bool
	file   map[string]config.Setting
	err    error // of the file

	from map[*kong.Flag]string // the places of the values that were taken
}

func newSettings(lookup func(string) (string, bool)) *settings {
	return &settings{lookup: lookup, from: map[*kong.Flag]string{}}
}

// Validate implements kong.Resolver.
func (*settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *settings) Resolve(ctx *kong.Context, path *kong.Path, flag *kong.Flag) (any, error) {
	if !isSetting(flag) {
		return nil, nil
	}
	if value := s.variable(flag); value != "" {
		s.from[flag] = variableOf(flag)
		return value, nil
	}
	s.load(ctx, path.Flags)
	set := s.file[flag.Name]
	value := strings.Join(set.Values, "")
	if value == "" {
		return nil, nil
	}
	s.from[flag] = set.Place
	if kindOf(flag) == config.List {
		value = kong.JoinEscaped(set.Values, flag.Tag.Sep)
	}
	return value, nil
}

func (s *settings) variable(flag *kong.Flag) string {
	value, _ := s.lookup(variableOf(flag))
	return value
}

// load reads the file that the flags of a command name, if they do.
func (s *settings) load(ctx *kong.Context, flags []*kong.Flag) {
	if s.loaded {
		return
	}
	s.loaded = true
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == configFlag })
	if i < 0 {
		return
	}
	name, _ := ctx.FlagValue(flags[i]).(string)
	if name == "" {
		name = s.variable(flags[i])
	}
	if name == "" {
		return
	}
	text, err := readSettings(name)
	if err != nil {
		s.err = fmt.Errorf("read the settings: %w", err)
		return
	}
	s.file, s.err = config.Parse(name, text, fileSettings(flags))
}

// maxSettings is far more than a settings file needs, in bytes. What is no file may have
// no end.
const maxSettings = 1 << 20

func readSettings(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err = errors.Join(err, f.Close()); err == nil && len(text) > maxSettings {
		err = fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return text, err
}

// fileSettings are the settings that a file may have.
func fileSettings(flags []*kong.Flag) map[string]config.Kind {
	known := map[string]config.Kind{}
	for _, f := range flags {
		if isSetting(f) && f.Name != configFlag {
			known[f.Name] = kindOf(f)
		}
	}
	return known
}

// explain says where a bad value came from if it was not the command line, and adds
// what is wrong with the file.
func (s *settings) explain(err error) error {
	if err == nil {
		return s.err
	}
	for flag, place := range s.from {
		if strings.HasPrefix(err.Error(), "--"+flag.Name+": ") || strings.HasPrefix(err.Error(), "--"+flag.Name+" must be ") {
			err = fmt.Errorf("%w (from %s)", err, place)
			break
		}
	}
	return errors.Join(s.err, err)
}

// place says where the value of a setting came from.
func (s *settings) place(parsed *kong.Context, flag *kong.Flag) string {
	if from := s.from[flag]; from != "" {
		return from
	}
	for _, p := range parsed.Path {
		if p.Flag == flag && !p.Resolved {
			return "--" + flag.Name
		}
	}
	return "default"
}

// describe is the help of a flag or argument, with its environment variable.
func describe(value *kong.Value) string {
	if value.Flag == nil || variableOf(value.Flag) == "" {
		return value.Help
	}
	return value.Help + " [$" + variableOf(value.Flag) + "]"
}
