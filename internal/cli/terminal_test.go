package cli_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/cli"
)

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "ä€😀": "ä€😀", "\x1b[31mred\x07\r\n": `\x1b[31mred\a\r` + "\n",
		"\u009b2J": `\u009b2J`, "a\xffb": `a\xffb`, "\uFFFD": "\uFFFD", "\xf0\x9f": `\xf0\x9f`, "": "",
	} {
		if got := cli.Harmless(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// Colour and progress are for terminals, which files and pipes are not.
func TestTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if cli.IsTerminal(f) || cli.IsTerminal(null) || cli.IsTerminal(&bytes.Buffer{}) {
		t.Error("a file, /dev/null or a buffer counts as a terminal")
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		add, end := cli.Progress(&b, "read")
		add(1 << 20)
		end()
		if b.Len() > 0 {
			t.Errorf("what is quick shows %q", &b)
		}
		time.Sleep(time.Second)
		add(1 << 20)
		add(5)
		if got := b.String(); got != "\r\x1b[Kread 2 MiB, 2 MiB/s" {
			t.Errorf("%q", got)
		}
		end()
		if !strings.HasSuffix(b.String(), "\r\x1b[K") {
			t.Errorf("%q stays", &b)
		}
	})
}

// Every command says what it does with examples, and so does every flag.
func TestHelp(t *testing.T) {
	commands, err := cli.Commands()
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 25 {
		t.Errorf("only %d commands", len(commands))
	}
	for _, c := range commands {
		if !strings.Contains(c.Detail, "Example") || !strings.Contains(c.Detail, "\n    ") || !strings.Contains(c.Detail, c.FullPath()) {
			t.Errorf("the help of %s has no example of it", c.FullPath())
		}
		if !strings.HasSuffix(c.Help, ".") {
			t.Errorf("%s: %q is no sentence", c.FullPath(), c.Help)
		}
		for _, f := range c.Flags {
			if !strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s --%s: %q is no sentence", c.FullPath(), f.Name, f.Help)
			}
		}
	}
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		name := c.FullPath()
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("docs/cli.md does not have %s", name)
		}
	}
}
