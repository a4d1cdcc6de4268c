package stream_test

import (
	"testing"

	"durablestreams/stream"
)

func TestRights(t *testing.T) {
	for text, want := range map[string]stream.Right{
		"read": stream.MayRead, "append": stream.MayAppend, "create": stream.MayCreate, "delete": stream.MayDelete,
		"subscribe": stream.MaySubscribe, "admin": stream.MayAdmin, "read,append": stream.MayRead | stream.MayAppend,
		"all": stream.MayRead | stream.MayAppend | stream.MayCreate | stream.MayDelete | stream.MaySubscribe | stream.MayAdmin,
	} {
		got, ok := stream.ParseRight(text)
		if !ok || got != want || got.String() != text {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
		if !got.Has(want) || got.Has(want|1<<7) {
			t.Errorf("%q has something else", text)
		}
	}
	if got, _ := stream.ParseRight("admin,read,read"); got.String() != "read,admin" {
		t.Errorf("not in order: %q", got)
	}
	for _, text := range []string{"", ",", "read,", "READ", "read, append", "write", "all,read", "*"} {
		if got, ok := stream.ParseRight(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
