package durablestreams_test

import (
	"strings"
	"testing"
	"time"

	"durablestreams"
)

func TestOptionsValidate(t *testing.T) {
	tests := []struct {
		opts *durablestreams.Options
		want string
	}{
		{nil, ""},
		{&durablestreams.Options{}, ""},
		{&durablestreams.Options{InMemory: true, BasePath: "/", PublicURL: "https://a.example/x", AllowedOrigins: []string{"https://b.example"},
			MaxBody: 1, MaxHeader: 4096, PageSize: 64 << 10, LongPollTimeout: time.Nanosecond, MaxConnections: 1, SegmentSize: 256 << 10, TailMemory: 1 << 20}, ""},
		{&durablestreams.Options{BasePath: "x"}, "base path"},
		{&durablestreams.Options{PublicURL: "x"}, "public URL"},
		{&durablestreams.Options{AllowedOrigins: []string{"*"}}, "allowed origin"},
		{&durablestreams.Options{MaxBody: -1}, "max body"},
		{&durablestreams.Options{MaxInflight: -1}, "max inflight"},
		{&durablestreams.Options{MaxBody: 2, MaxInflight: 3}, "max inflight"},
		{&durablestreams.Options{MaxUnsent: 1000}, "max unsent"},
		{&durablestreams.Options{MaxQueued: 1000}, "max queued"},
		{&durablestreams.Options{MaxLive: -1}, "max live"},
		{&durablestreams.Options{MaxReads: -1}, "max reads"},
		{&durablestreams.Options{MaxSends: -1}, "max sends"},
		{&durablestreams.Options{PageSize: 10}, "page size"},
		{&durablestreams.Options{LongPollTimeout: -1}, "negative duration"},
		{&durablestreams.Options{StallTimeout: -1}, "http options"},
		{&durablestreams.Options{MaxConnections: -1}, "max connections"},
		{&durablestreams.Options{SegmentSize: 1}, "segment size"},
		{&durablestreams.Options{SegmentSize: 2 << 30}, "segment size"},
		{&durablestreams.Options{InMemory: true, MaxMemory: 1 << 20}, "max memory"},
		{&durablestreams.Options{TailMemory: 1}, "tail memory"},
		{&durablestreams.Options{CacheSize: 1}, "cache size"},
		{&durablestreams.Options{ShutdownGrace: -1}, "shutdown grace"},
	}
	for _, tt := range tests {
		err := tt.opts.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.opts, err, tt.want)
		}
		if tt.want == "" {
			continue
		}
		dir := t.TempDir()
		if s, err := durablestreams.Open(dir+"/data", tt.opts); err == nil {
			s.Shutdown(t.Context())
			t.Errorf("Open with %+v succeeds", tt.opts)
		}
	}
}
