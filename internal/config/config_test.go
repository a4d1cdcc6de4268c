package config_test

import (
	"reflect"
	"strings"
	"testing"

	"durablestreams/internal/config"
)

var known = map[string]config.Kind{
	"listen": config.Text, "max-body": config.Quantity, "max-live": config.Number, "in-memory": config.Switch, "cors-origins": config.List,
}

func TestParse(t *testing.T) {
	got, err := config.Parse("ds.toml", []byte("# a comment\nlisten = \"x:1\"\n\nmax-body = '16MiB'\nmax-live=1_000\n"+
		"in-memory = false\ncors-origins = [\n  \"a,b\", # one\n  \"c\",\n]\n"), known)
	want := map[string]config.Setting{
		"listen":       {[]string{"x:1"}, "ds.toml:2"},
		"max-body":     {[]string{"16MiB"}, "ds.toml:4"},
		"max-live":     {[]string{"1000"}, "ds.toml:5"},
		"in-memory":    {[]string{"false"}, "ds.toml:6"},
		"cors-origins": {[]string{"a,b", "c"}, "ds.toml:7"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := config.Parse("f", nil, known); err != nil || len(got) != 0 {
		t.Errorf("an empty file gives %v, %v", got, err)
	}
}

// Every mistake is told with its place, all at once.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"listen = \"a\"\nlisten_ = \"b\"": `f:2: unknown setting "listen_", did you mean "listen"?`,
		"max_body = 1":                    `f:1: unknown setting "max_body", did you mean "max-body"?`,
		"Max-Body = 1":                    `f:1: unknown setting "Max-Body", did you mean "max-body"?`,
		"max-bdoy = 1":                    `f:1: unknown setting "max-bdoy", did you mean "max-body"?`,
		"zebra-crossing = 1":              `f:1: unknown setting "zebra-crossing"`,
		"\n[network]\nlisten = \"a\"":     `f:2: there are no sections: write each setting on a line of its own, without [network]`,
		"listen.port = 1":                 `f:1: there are no sections: write each setting on a line of its own, without [listen.port]`,
		"listen = 1":                      `f:1: listen: want a string in quotes`,
		"listen = [\"a\"]":                `f:1: listen: want a string in quotes`,
		"max-body = 1.5":                  `f:1: max-body: want a string with a unit, such as "16MiB", or a whole number`,
		"max-live = \"7\"":                `f:1: max-live: want a whole number, such as 100`,
		"in-memory = \"yes\"":             `f:1: in-memory: want true or false`,
		"in-memory = 1":                   `f:1: in-memory: want true or false`,
		"cors-origins = \"a\"":            `f:1: cors-origins: want a list of strings, such as ["a", "b"]`,
		"cors-origins = [\"a\", 1]":       `f:1: cors-origins: want a list of strings, such as ["a", "b"]`,
		"max-live = 1979-05-27":           `f:1: max-live: want a whole number, such as 100`,
		"a = 1\nmax-live = true\nb = 2":   "f:1: unknown setting \"a\"\nf:2: max-live: want a whole number, such as 100\nf:3: unknown setting \"b\"",
	} {
		if _, err := config.Parse("f", []byte(text), known); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, place := range map[string]string{
		"max-live = 1\nmax-live = 2": "f:2:",
		"listen = x":                 "f:1:10:",
		"listen":                     "f:1:",
		"\n\nlisten = \"a":           "f:3:",
		"listen = \"\xff\"":          "f:1:",
	} {
		if _, err := config.Parse("f", []byte(text), known); err == nil || !strings.HasPrefix(err.Error(), place) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line that begins with %s", text, err, place)
		}
	}
}

// Whatever a file holds, there is an answer, and what is taken is of the known kinds.
func FuzzParse(f *testing.F) {
	f.Add("listen = \"a\"\nmax-live = 7\n[x]\ny.z = [1, {a = 2}]\n[[x.w]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.Parse("f", []byte(text), known)
		for name, s := range got {
			if kind, ok := known[name]; !ok || kind != config.List && len(s.Values) != 1 || !strings.HasPrefix(s.Place, "f:") {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without a word")
		}
	})
}
