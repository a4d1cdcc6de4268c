package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand is "ds completion".
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the text below the summary.
func (completionCommand) Help() string {
	return `Writes a script that completes commands and flags of ds in a shell.

Examples:

    source <(ds completion bash)                                 # in ~/.bashrc
    source <(ds completion zsh)                                  # in ~/.zshrc, after compinit
    ds completion fish > ~/.config/fish/completions/ds.fish`
}

// The scripts ask ds itself, by the word askWord, for what may come: a line each,
// the word, a tab and what it means. Where that is nothing, files are offered.
const (
	askWord = "__complete"

	bashScript = `_ds() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("${line%%$'\t'*}")
	done < <("${COMP_WORDS[0]}" ` + askWord + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _ds ds
`

	zshScript = `#compdef ds
_ds() {
	local -a found
	local line
	while IFS= read -r line; do
		found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done < <("${words[1]}" ` + askWord + ` "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( ${#found} )); then
		_describe ds found
	else
		_files
	fi
}
compdef _ds ds
`

	fishScript = `function __ds_complete
	set -l words (commandline -opc)
	$words[1] ` + askWord + ` $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c ds -a '(__ds_complete)'
`
)

// Run writes.
func (c *completionCommand) Run(env *Env) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := io.WriteString(env.Stdout, script)
	return err
}

// complete writes what the last of some words may become.
func complete(w io.Writer, app *kong.Application, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	node, flag, argument := walk(app.Node, words[:len(words)-1])
	last := words[len(words)-1]
	var found [][2]string
	switch {
	case flag != nil:
		found = choices(flag.Enum)
	case strings.HasPrefix(last, "-"):
		found = flagsOf(node)
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				found = append(found, [2]string{child.Name, child.Help})
			}
		}
	case argument < len(node.Positional):
		found = choices(node.Positional[argument].Enum)
	}
	for _, f := range found {
		if !strings.HasPrefix(f[0], last) {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\n", f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// walk follows whole words: to the command that they name, the flag whose value
// comes next, and the number of arguments that have come.
func walk(node *kong.Node, words []string) (at *kong.Node, value *kong.Flag, arguments int) {
	for _, word := range words {
		if value != nil {
			value = nil
			continue
		}
		if strings.HasPrefix(word, "-") {
			if f := findFlag(node, word); f != nil && !f.IsBool() && !f.IsCounter() {
				value = f
			}
			continue
		}
		if child := childOf(node, word); child != nil {
			node, arguments = child, 0
			continue
		}
		arguments++
	}
	return node, value, arguments
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// findFlag finds the flag of a word without a value.
func findFlag(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func flagsOf(node *kong.Node) (found [][2]string) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			found = append(found, [2]string{"--" + f.Name, f.Help})
			if f.Tag != nil && f.Tag.Negatable != "" {
				found = append(found, [2]string{"--no-" + f.Name, f.Help})
			}
		}
	}
	return found
}

// choices are the values of an enumeration.
func choices(enum string) (found [][2]string) {
	for _, word := range strings.Split(enum, ",") {
		if word != "" {
			found = append(found, [2]string{word, ""})
		}
	}
	return found
}
