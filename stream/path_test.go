package stream_test

import (
	"errors"
	"strings"
	"testing"

	"durablestreams/stream"
)

func TestParsePath(t *testing.T) {
	for raw, want := range map[string]error{
		"a": nil, "a/b": nil, "a%2Fb": nil, "a%20b": nil, "~a!$&'()*+,;=:@-._": nil, "a/__ds": nil, "__dsx": nil, "_": nil, "%7e": nil,
		strings.Repeat("x", stream.MaxPathLen): nil,
		"...":                                  nil, "a/..b": nil, "\"<>\\^`{|}": nil,
		"": stream.InvalidPath, "/": stream.InvalidPath, "/a": stream.InvalidPath, "a/": stream.InvalidPath, "a//b": stream.InvalidPath,
		".": stream.InvalidPath, "a/../b": stream.InvalidPath, "a/%2e%2E/b": stream.InvalidPath, "%2E": stream.InvalidPath, "a/.%2e": stream.InvalidPath,
		"a b": stream.InvalidPath, "a\x7f": stream.InvalidPath, "a\x00": stream.InvalidPath, "é": stream.InvalidPath, "a?b": stream.InvalidPath, "a#b": stream.InvalidPath,
		"%": stream.InvalidPath, "%4": stream.InvalidPath, "%4g": stream.InvalidPath, "a/%": stream.InvalidPath, "a%\x14": stream.InvalidPath,
		strings.Repeat("x", stream.MaxPathLen+1): stream.InvalidPath,
		"__ds":                                   stream.Reserved, "__ds/a": stream.Reserved, "%5f%5Fds/x": stream.Reserved, "_%5fd%73": stream.Reserved,
		"__ds%2Fx": stream.Reserved, "__ds%2f": stream.Reserved, "%5f_ds%2Fx/y": stream.Reserved, "__ds%2F%2e": stream.Reserved,
		"__ds%252Fx": nil, "__ds%2Ex": nil, "a/__ds%2Fx": nil, "__ds%5Cx": nil,
	} {
		p, err := stream.ParsePath(raw)
		if want == nil && (err != nil || string(p) != raw) || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %q, %v, want %v", raw, p, err, want)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a", "a%2fb/c", "__ds", "%5f_ds", "..", "a//b", "%", "\x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := stream.ParsePath(raw)
		if err != nil {
			return
		}
		if string(p) != raw || len(raw) > stream.MaxPathLen || raw == "" || strings.HasPrefix(raw, "__ds/") || raw == "__ds" ||
			strings.Contains(raw, "//") || strings.Contains("/"+raw+"/", "/../") || strings.ContainsAny(raw, " \r\n\x00?#") {
			t.Errorf("%q was taken", raw)
		}
	})
}
