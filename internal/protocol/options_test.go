package protocol_test

import (
	"testing"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/internal/protocol"
)

func TestOptions(t *testing.T) {
	core, err := protocol.New(&fakestore.Store{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := core.Options()
	if o.BasePath != "/durable-streams" || o.MaxBody != 16<<20 || o.PageSize != 1<<20 || o.LongPollTimeout != 30*time.Second ||
		o.SSEMaxAge != time.Minute || o.KeepAlive != 15*time.Second || o.Logger == nil || core.Root() != "/durable-streams/v1/stream/" {
		t.Errorf("defaults %+v", o)
	}
	for base, root := range map[string]string{"/": "/v1/stream/", "/x/": "/x/v1/stream/", "/x/y.z_~-": "/x/y.z_~-/v1/stream/"} {
		core, err := protocol.New(&fakestore.Store{}, &protocol.Options{BasePath: base})
		if err != nil || core.Root() != root {
			t.Errorf("base path %q: %v", base, err)
		}
	}
	for _, bad := range []*protocol.Options{
		{BasePath: "x"}, {BasePath: "/x//y"}, {BasePath: "//"}, {BasePath: "/a b"}, {BasePath: "/%41"}, {BasePath: "/a/../b"}, {BasePath: "/."},
		{PublicURL: "x.example"}, {PublicURL: "ftp://x"}, {PublicURL: "https://x?y"}, {PublicURL: "https://u@x"},
		{AllowedOrigins: []string{"*"}}, {AllowedOrigins: []string{"https://x/"}}, {AllowedOrigins: []string{""}},
		{MaxBody: -1}, {MaxBody: 2 << 30}, {PageSize: 1000}, {PageSize: -1}, {LongPollTimeout: -1}, {SSEMaxAge: -1}, {KeepAlive: -1},
	} {
		if _, err := protocol.New(&fakestore.Store{}, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
