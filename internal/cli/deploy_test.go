package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"durablestreams/internal/cli"
)

// Everything in deploy/ names commands and settings that there are.
func TestDeploy(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := func(name, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(name))
		if m == nil {
			t.Fatalf("%s does not match %s", name, pattern)
		}
		return m[1]
	}
	for _, test := range []struct{ name, flags string }{
		{"deploy/kubernetes/ds.yaml", strings.ReplaceAll(one("deploy/kubernetes/ds.yaml", `args: \[serve, (.*)\]`), ", ", " ")},
		{"deploy/systemd/ds.service", one("deploy/systemd/ds.service", `(?m)^ExecStart=\S+/ds serve (.*)$`)},
	} {
		if _, err := cli.ServeOptions(strings.Fields(test.flags), unset); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	settings := read("docs/settings.md")
	for _, name := range []string{"deploy/docker/Dockerfile", "deploy/systemd/ds.service"} {
		for _, variable := range regexp.MustCompile(`DS_[A-Z_]+`).FindAllString(read(name), -1) {
			if !strings.Contains(settings, "`"+variable+"`") {
				t.Errorf("%s: there is no setting %s", name, variable)
			}
		}
	}
	help := read("docs/cli.md")
	for _, name := range []string{"deploy/docker/Dockerfile", "deploy/kubernetes/ds.yaml"} {
		for _, m := range regexp.MustCompile(`/ds"?, "?([a-z]+)`).FindAllStringSubmatch(read(name), -1) {
			if !strings.Contains(help, "`ds "+m[1]+"`") {
				t.Errorf("%s: there is no command %s", name, m[1])
			}
		}
	}
}
