package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"durablestreams/internal/config"
)

// configCommand is "ds config".
type configCommand struct {
	Check   configCheckCommand   `cmd:"" help:"Check a settings file."`
	Show    configShowCommand    `cmd:"" help:"Show the settings that ds serve would have, and where each comes from."`
	Example configExampleCommand `cmd:"" help:"Print a settings file with every setting and its default."`
}

// configCheckCommand is "ds config check".
type configCheckCommand struct {
	File string `arg:"" help:"Settings file."`
}

// Help is the text below the summary.
func (configCheckCommand) Help() string {
	return `Reads the file as ds serve --config would and says all that is wrong with it. The environment does not
count. The exit code is 0 if a server would take these settings, 2 if something is wrong. Whether the addresses
are free, and what stands in the certificate and the access file, shows when it starts.

Example:

    ds config check ds.toml`
}

// Run checks.
func (c *configCheckCommand) Run(env *Env) error {
	nothing := func(string) (string, bool) { return "", false }
	serve, parsed, err := parseServe([]string{"serve", "--" + configFlag, c.File}, nothing)
	if err == nil {
		err = serve.checkAddresses()
	}
	if err != nil {
		return usageError{err}
	}
	n := 0
	for _, p := range parsed.Path {
		if p.Resolved {
			n++
		}
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %d settings, nothing wrong\n", c.File, n)
	return err
}

// parseServe reads the settings of a server anew: a command line that is one of ds
// serve, an environment, and the settings file that they name. All of it has been
// checked as far as it can be without a server.
func parseServe(args []string, lookup func(string) (string, bool)) (*serveCommand, *kong.Context, error) {
	var c commands
	s := newSettings(lookup)
	parser, err := newParser(&c, s)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := parser.Parse(args)
	if err = s.explain(err); err != nil {
		return nil, nil, err
	}
	return &c.Serve, parsed, c.Serve.options(nil).Validate()
}

// configShowCommand is "ds config show". It has all the flags of serve.
type configShowCommand struct {
	JSON  bool         `name:"json" help:"One JSON object for all settings."`
	Serve serveCommand `embed:""`
}

// Help is the text below the summary.
func (configShowCommand) Help() string {
	return `Takes the flags of ds serve and the same environment, and prints what the server would use, as a settings
file. Secrets are not shown.

Examples:

    ds config show --config ds.toml
    DS_MAX_BODY=1MiB ds config show --config ds.toml --log-level debug`
}

// shown is one setting as --json tells it.
type shown struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Run shows.
func (c *configShowCommand) Run(env *Env, parsed *kong.Context, s *settings) error {
	if err := c.Serve.options(nil).Validate(); err != nil {
		return usageError{err}
	}
	var all []shown
	for _, f := range parsed.Flags() {
		if isSetting(f) {
			all = append(all, shown{f.Name, shownValue(f), s.place(parsed, f)})
		}
	}
	if c.JSON {
		return writeJSON(env.Stdout, all)
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	for _, v := range all {
		value, err := json.Marshal(v.Value) // which is TOML, too
		if err != nil {
			return err
		}
		mark := ""
		if v.From == "default" || v.Name == configFlag {
			mark = "#"
		}
		if _, err := fmt.Fprintf(w, "%s%s = %s\t# %s\n", mark, v.Name, value, v.From); err != nil {
			return err
		}
	}
	return w.Flush()
}

// secret is the tag of flags whose values are not shown.
const secret = "secret"

// shownValue is the value of a flag as a settings file has it.
func shownValue(f *kong.Flag) any {
	v := f.Target.Interface()
	if f.Tag.Has(secret) && !f.Target.IsZero() {
		return "********"
	}
	switch v := v.(type) {
	case size:
		if v == 0 && !f.HasDefault {
			return f.PlaceHolder // names the default
		}
		return v.String()
	case time.Duration:
		return v.String()
	case []string:
		return append([]string{}, v...) // never null
	}
	return v
}

// configExampleCommand is "ds config example".
type configExampleCommand struct{}

// Help is the text below the summary.
func (configExampleCommand) Help() string {
	return `Prints a settings file in which every line is a comment: take the # away from what is to be different.

Example:

    ds config example > ds.toml`
}

// Run prints.
func (c *configExampleCommand) Run(env *Env, parsed *kong.Context) error {
	return writeExample(env.Stdout, serveFlags(parsed.Model))
}

// serveFlags are the flags of ds serve.
func serveFlags(app *kong.Application) []*kong.Flag {
	for _, command := range app.Children {
		if command.Name == "serve" {
			return command.Flags
		}
	}
	return nil
}

const exampleHead = `# Settings of ds serve, by the names of its flags: ds serve --config FILE. A flag and
# a variable of the environment (DS_MAX_BODY) win over this file. Sizes take B, KiB, MiB,
# GiB, KB, MB and GB, times ms, s, m and h. 0, "" and [] stand for the default that the text
# names. ds config check FILE says what is wrong with a file.
`

// writeExample writes a file with all settings among the flags, each with its help.
func writeExample(w io.Writer, flags []*kong.Flag) error {
	var b strings.Builder
	b.WriteString(exampleHead)
	group := ""
	for _, f := range flags {
		if !isSetting(f) || f.Name == configFlag {
			continue
		}
		if f.Group.Title != group {
			group = f.Group.Title
			fmt.Fprintf(&b, "\n### %s\n", strings.TrimSuffix(group, ":"))
		}
		fmt.Fprintf(&b, "\n%s#%s = %s\n", comment(f.Help), f.Name, exampleValue(f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// exampleValue is the default of a setting, or what one looks like.
func exampleValue(f *kong.Flag) string {
	text := f.Default
	if text == "" {
		text = f.PlaceHolder
	}
	switch kindOf(f) {
	case config.Number:
		if !f.HasDefault {
			return "0"
		}
		return text
	case config.Switch:
		if !f.HasDefault {
			return "false"
		}
		return text
	case config.List:
		return fmt.Sprintf("[%q]", text)
	}
	return fmt.Sprintf("%q", text)
}

// comment breaks a text into lines that begin with #.
func comment(text string) string {
	const width = 90
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) >= width {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}
