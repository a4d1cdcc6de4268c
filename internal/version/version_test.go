package version_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"durablestreams/internal/version"
)

func TestOf(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	system := []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}
	stamps := append([]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"}}, system...)
	dirty := append([]debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}}, system...)
	ours := func(v string) debug.Module { return debug.Module{Path: "durablestreams", Version: v} }
	tests := map[string]struct {
		build *debug.BuildInfo
		want  version.Info
		text  string
	}{
		"a tag": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: ours("v1.2.0"), Settings: stamps},
			version.Info{Version: "v1.2.0", Commit: commit, Date: "2026-01-02T03:04:05Z", Go: "go1.26.0", OS: "linux", Arch: "arm64"},
			"v1.2.0 (commit 0123456789ab of 2026-01-02T03:04:05Z) go1.26.0 linux/arm64"},
		"uncommitted changes": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: ours("v1.2.0+dirty"), Settings: dirty},
			version.Info{Version: "v1.2.0+dirty", Commit: commit, Modified: true, Go: "go1.26.0", OS: "linux", Arch: "arm64"},
			"v1.2.0+dirty (commit 0123456789ab, modified) go1.26.0 linux/arm64"},
		"no git": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: ours("(devel)"), Settings: system},
			version.Info{Version: version.Unknown, Go: "go1.26.0", OS: "linux", Arch: "arm64"},
			"(devel) go1.26.0 linux/arm64"},
		"in another program": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "example.com/app", Version: "v9.9.9"},
				Deps: []*debug.Module{{Path: "example.com/x", Version: "v8.8.8"}, {Path: "durablestreams", Version: "v1.2.0"}}, Settings: stamps},
			version.Info{Version: "v1.2.0", Go: "go1.26.0", OS: "linux", Arch: "arm64"},
			"v1.2.0 go1.26.0 linux/arm64"},
		"nothing known": {nil, version.Info{Version: version.Unknown}, "(devel)  /"},
	}
	for name, test := range tests {
		got := version.Of(test.build)
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if got.String() != test.text {
			t.Errorf("%s: %q, want %q", name, got, test.text)
		}
	}
}

// A binary of this toolchain knows at least what it runs on.
func TestRead(t *testing.T) {
	if i := version.Read(); i.Version == "" || i.Go != runtime.Version() || i.OS != runtime.GOOS || i.Arch != runtime.GOARCH {
		t.Errorf("%+v", i)
	}
}
