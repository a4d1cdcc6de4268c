package cli_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"durablestreams/internal/cli"
)

var rewrite = flag.Bool("rewrite", false, "write the documents that are made from the table of flags")

// The list of all settings and the example file are made from the flags themselves.
func TestSettingsAreDocumented(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"../../docs/settings.md": func(b *bytes.Buffer) error { return cli.WriteReference(b) },
		"../../deploy/ds.toml":   func(b *bytes.Buffer) error { return cli.WriteExample(b) },
	} {
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		if *rewrite {
			if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is not what the flags of ds serve say (%v): run make settings", name, err)
		}
	}
}

// Every line of the example is a setting as a file may have it.
func TestExampleIsValid(t *testing.T) {
	var b bytes.Buffer
	if err := cli.WriteExample(&b); err != nil {
		t.Fatal(err)
	}
	settings, err := cli.ParseUncommented(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(settings) < 30 {
		t.Errorf("only %d settings", len(settings))
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	if got, err := cli.ShownSecret("--token=abc"); got != "********" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := cli.ShownSecret(); got != "" || err != nil {
		t.Errorf("unset: %v, %v", got, err)
	}
}
