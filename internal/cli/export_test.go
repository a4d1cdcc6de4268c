package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"durablestreams"
	"durablestreams/internal/config"
)

// ServeOptions gives the options that ds serve takes from a command line.
func ServeOptions(args []string, lookup func(string) (string, bool)) (*durablestreams.Options, error) {
	var c commands
	set := newSettings(lookup)
	parser, err := newParser(&c, set)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil || set.err != nil {
		return nil, errors.Join(err, set.err)
	}
	return c.Serve.options(nil), nil
}

// allFlags are the flags of ds serve.
func allFlags() ([]*kong.Flag, error) {
	parser, err := newParser(&commands{}, newSettings(nil))
	if err != nil {
		return nil, err
	}
	return serveFlags(parser.Model), nil
}

// WriteExample writes the example of a settings file.
func WriteExample(w io.Writer) error {
	flags, err := allFlags()
	if err != nil {
		return err
	}
	return writeExample(w, flags)
}

// ParseUncommented reads an example whose settings are all taken.
func ParseUncommented(example []byte) (map[string]config.Setting, error) {
	flags, err := allFlags()
	if err != nil {
		return nil, err
	}
	taken := regexp.MustCompile(`(?m)^#([a-z][a-z-]+ = )`).ReplaceAll(example, []byte("$1"))
	return config.Parse("example", taken, fileSettings(flags))
}

// WriteReference writes docs/settings.md.
func WriteReference(w io.Writer) error {
	flags, err := allFlags()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Made from the flags in internal/cli/serve.go by make settings. -->

Every setting of ` + "`ds serve`" + ` is a flag, a variable of the environment, and a line in a [settings file](../deploy/ds.toml); the earlier one of these
wins. How to use them stands in [operate.md](operate.md#settings).
`)
	group := ""
	for _, f := range flags {
		if !isSetting(f) {
			continue
		}
		if f.Group.Title != group {
			group = f.Group.Title
			fmt.Fprintf(&b, "\n## %s\n\n| flag and name in a file | variable | default or form | |\n|---|---|---|---|\n", strings.TrimSuffix(group, ":"))
		}
		value := f.Default
		if value == "" {
			value = f.PlaceHolder
		}
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", f.Name, variableOf(f), value, strings.ReplaceAll(f.Help, "|", "\\|"))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// ShownSecret is what ds config show shows of a flag that is a secret.
func ShownSecret(args ...string) (any, error) {
	var c struct {
		Token string `secret:""`
	}
	parser, err := kong.New(&c)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	return shownValue(parsed.Flags()[1]), nil // the first one is --help
}

// Harmless is what a terminal is given of a text.
func Harmless(text string) string { return harmless(text) }

// IsTerminal tells whether a person looks at what is written.
func IsTerminal(w io.Writer) bool { return isTerminal(w) }

// Progress shows how far a work is.
func Progress(w io.Writer, what string) (add func(int), end func()) {
	p := newProgress(w, what)
	return p.add, p.end
}

// Commands are all commands that do something.
func Commands() ([]*kong.Node, error) {
	parser, err := newParser(&commands{}, newSettings(nil))
	if err != nil {
		return nil, err
	}
	return parser.Model.Leaves(true), nil
}

// StandardEndpoint is the collector that OpenTelemetry's variables name.
func StandardEndpoint(lookup func(string) (string, bool)) string { return standardEndpoint(lookup) }
