package protocol_test

import (
	"testing"

	"durablestreams/internal/protocol"
)

func TestProxied(t *testing.T) {
	for _, tt := range []struct {
		trusted []string
		remote  string
		want    bool
	}{
		{nil, "127.0.0.1:1", false},
		{[]string{"127.0.0.1"}, "127.0.0.1:1", true},
		{[]string{"127.0.0.1"}, "127.0.0.2:1", false},
		{[]string{"127.0.0.1"}, "[::ffff:127.0.0.1]:1", true},
		{[]string{"10.1.2.3/8"}, "10.200.0.1:1", true},
		{[]string{"192.168.0.0/16", "10.0.0.0/8"}, "10.200.0.1:1", true},
		{[]string{"10.0.0.0/8"}, "11.0.0.1:1", false},
		{[]string{"fe80::/10"}, "[fe80::1%eth0]:1", true},
		{[]string{"::1"}, "[::1]:80", true},
		{[]string{"0.0.0.0/0"}, "[::1]:80", false},
		{[]string{"0.0.0.0/0"}, "@", false},
		{[]string{"unix"}, "@", true},
		{[]string{"unix"}, "", true},
		{[]string{"unix"}, "127.0.0.1:1", false},
	} {
		core, err := protocol.New(nil, &protocol.Options{TrustedProxies: tt.trusted})
		if err != nil {
			t.Fatal(err)
		}
		if got := core.Proxied(func() string { return tt.remote }); got != tt.want {
			t.Errorf("%s with %q trusted: %v", tt.remote, tt.trusted, got)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "proxy.example", "10.0.0.1:80", "fe80::1%eth0/10"} {
		if (&protocol.Options{TrustedProxies: []string{bad}}).Validate() == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
