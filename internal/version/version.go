// Package version says what a binary was built from, as far as the Go toolchain has
// stamped it. Its functions may be called at once.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

const module = "durablestreams"

// Unknown is the version of a build that bears no stamp: go run, go test, a checkout
// without git.
const Unknown = "(devel)"

// Info is what is known of a build.
type Info struct {
	Version  string `json:"version"`            // the tag, a pseudo-version made of time and commit, or Unknown
	Commit   string `json:"commit,omitempty"`   // in full
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // there were changes that are in no commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Read gives what this binary was built from.
func Read() Info {
	build, _ := debug.ReadBuildInfo() // nil where there is none
	return Of(build)
}

// Of reads what a build was stamped with; build may be nil. In a binary of another
// module the version is that of the dependency: the commit is somebody else's.
func Of(build *debug.BuildInfo) Info {
	if build == nil {
		build = &debug.BuildInfo{}
	}
	i := Info{Version: build.Main.Version, Go: build.GoVersion}
	embedded := build.Main.Path != "" && build.Main.Path != module
	if embedded {
		i.Version = ""
		for _, d := range build.Deps {
			if d.Path == module {
				i.Version = d.Version
			}
		}
	}
	i.Version = cmp.Or(i.Version, Unknown)
	for _, s := range build.Settings {
		switch s.Key {
		case "GOOS":
			i.OS = s.Value
		case "GOARCH":
			i.Arch = s.Value
		}
		if embedded {
			continue
		}
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// shortCommit is how much of a commit is shown to people.
const shortCommit = 12

// String is one line: "v1.2.0 (commit 0123456789ab of 2026-01-02T03:04:05Z) go1.26.0 linux/amd64".
func (i Info) String() string {
	var b strings.Builder
	b.WriteString(i.Version)
	if i.Commit != "" {
		fmt.Fprintf(&b, " (commit %.*s", shortCommit, i.Commit)
		if i.Date != "" {
			b.WriteString(" of " + i.Date)
		}
		if i.Modified {
			b.WriteString(", modified")
		}
		b.WriteString(")")
	}
	fmt.Fprintf(&b, " %s %s/%s", i.Go, i.OS, i.Arch)
	return b.String()
}
