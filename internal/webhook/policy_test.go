package webhook_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"durablestreams/internal/webhook"
)

func rules(t testing.TB, texts ...string) (list []webhook.Rule) {
	t.Helper()
	for _, text := range texts {
		rule, err := webhook.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if rule.String() != strings.ToLower(text) && !strings.HasPrefix(rule.String(), text+"/") {
			t.Errorf("rule %q is written %q", text, rule)
		}
		list = append(list, rule)
	}
	return list
}

func TestURLs(t *testing.T) {
	tests := []struct {
		url  string
		says string // part of the reason; empty: allowed
	}{
		{"https://worker.example/hooks", ""},
		{"https://worker.example", ""},
		{"https://worker.example:443/?a=b&c=%20", ""},
		{"https://worker.example:8443/hooks", ""},
		{"https://WORKER.Example/Hooks", ""},
		{"HTTPS://worker.example/", ""},
		{"https://my_worker.example/", ""},
		{"https://xn--bcher-kva.example/", ""},
		{"https://1.example/", ""},
		{"https://8.8.8.8/", ""},
		{"https://[2606:4700::1111]/", ""},

		{"", "empty"},
		{"https://a.example/" + strings.Repeat("a", 2048), "longer"},
		{"worker.example/hooks", "https"},
		{"//worker.example/hooks", "https"},
		{"http://worker.example/hooks", "https"},
		{"ftp://worker.example/", "https"},
		{"file:///etc/passwd", "https"},
		{"javascript:alert(1)", "https"},
		{"https:worker.example", "no host"},
		{"https:/worker.example", "no host"},
		{"https:///worker.example", "no host"},
		{"https://", "no host"},
		{"https://:443/", "empty"},
		{"https://user@worker.example/", "user name"},
		{"https://user:secret@worker.example/", "user name"},
		{"https://@worker.example/", "user name"},
		{"https://worker.example@10.0.0.1/", "user name"},
		{"https://worker.example#@10.0.0.1/", "fragment"},
		{"https://worker.example/#", "fragment"},
		{"https://worker.example\\@10.0.0.1/", "character"},
		{"https://worker.example /", "character"},
		{" https://worker.example/", "character"},
		{"https://worker.example/\r\nX: y", "character"},
		{"https://worker.example/\x00", "character"},
		{"https://worker.example/%zz", "not a URL"},
		{"https://%31%30.0.0.1/", "not a URL"},
		{"https://bücher.example/", "punycode"},
		{"https://１０.0.0.1/", "punycode"},
		{"https://⑩.0.0.1/", "punycode"},
		{"https://127。0。0。1/", "punycode"},
		{"https://wor,ker.example/", "character that names do not have"},
		{"https://worker.example./", "empty or too long part"},
		{"https://worker..example/", "empty or too long part"},
		{"https://.worker.example/", "empty or too long part"},
		{"https://" + strings.Repeat("a", 64) + ".example/", "empty or too long part"},
		{"https://" + strings.Repeat("a.", 127) + "example/", "too long"},

		{"https://worker.example:/", "port"},
		{"https://worker.example:0/", "port"},
		{"https://worker.example:0443/", "port"},
		{"https://worker.example:65536/", "port"},
		{"https://worker.example:99999999999999999999/", "port"},
		{"https://worker.example:22/", "below 1024"},
		{"https://worker.example:80/", "below 1024"},
		{"https://worker.example:-1/", "not a URL"},
		{"https://worker.example:443:443/", "not a URL"},

		{"https://localhost/", "local network"},
		{"https://LOCALHOST/", "local network"},
		{"https://localhost./", "part"},
		{"https://a.localhost/", "local network"},
		{"https://metadata/", "local network"},
		{"https://metadata.google.internal/", "local network"},
		{"https://printer.local/", "local network"},
		{"https://a.localdomain/", "local network"},
		{"https://router.home.arpa/", "local network"},
		{"https://local/", "local network"},
		{"http://localhost:3000/", "local network"},
		{"http://127.0.0.1:3000/", "of this machine"},
		{"http://10.0.0.1/hook", "private"},
	}
	var policy webhook.Policy
	for _, tt := range tests {
		checkURL(t, &policy, tt.url, tt.says)
	}
}

func checkURL(t *testing.T, policy *webhook.Policy, raw, says string) {
	t.Helper()
	err := policy.CheckURL(raw)
	if says == "" {
		if err != nil {
			t.Errorf("%q: %v", raw, err)
		}
		return
	}
	rejected, ok := errors.AsType[*webhook.URLError](err)
	if !ok || !strings.Contains(rejected.Reason, says) {
		t.Errorf("%q: %v, want a reason with %q", raw, err, says)
	}
}

// hosts are addresses in every form that some program understands.
var hosts = []struct{ host, says string }{
	{"0.0.0.0", "reserved"}, {"0.1.2.3", "reserved"},
	{"10.0.0.0", "private"}, {"10.255.255.255", "private"}, {"9.255.255.255", ""}, {"11.0.0.0", ""},
	{"100.63.255.255", ""}, {"100.64.0.0", "private"}, {"100.127.255.255", "private"}, {"100.128.0.0", ""},
	{"100.100.100.200", "reserved"}, {"168.63.129.16", "reserved"}, {"168.63.129.17", ""},
	{"126.255.255.255", ""}, {"127.0.0.1", "this machine"}, {"127.255.255.254", "this machine"}, {"128.0.0.0", ""},
	{"169.253.255.255", ""}, {"169.254.0.1", "reserved"}, {"169.254.169.254", "reserved"}, {"169.255.0.0", ""},
	{"172.15.255.255", ""}, {"172.16.0.0", "private"}, {"172.31.255.255", "private"}, {"172.32.0.0", ""},
	{"192.0.0.1", "reserved"}, {"192.0.0.192", "reserved"}, {"192.0.2.1", "reserved"}, {"192.0.1.1", ""}, {"192.0.3.1", ""},
	{"192.88.99.1", "reserved"}, {"192.167.255.255", ""}, {"192.168.0.0", "private"}, {"192.168.255.255", "private"}, {"192.169.0.0", ""},
	{"198.17.255.255", ""}, {"198.18.0.0", "reserved"}, {"198.19.255.255", "reserved"}, {"198.20.0.0", ""},
	{"198.51.100.1", "reserved"}, {"203.0.113.1", "reserved"},
	{"223.255.255.255", ""}, {"224.0.0.1", "reserved"}, {"239.255.255.255", "reserved"}, {"240.0.0.1", "reserved"}, {"255.255.255.255", "reserved"},

	// other spellings of IPv4 addresses
	{"2130706433", "number"}, {"0x7f000001", "number"}, {"0x7f.0.0.1", "usual form|number"}, {"0177.0.0.1", "number"},
	{"017700000001", "number"}, {"127.1", "number"}, {"127.0.1", "number"}, {"10.1", "number"}, {"127.0.0.01", "number"},
	{"127.0.0.0x1", "number"}, {"8.8.8.08", "number"}, {"134744072", "number"}, {"1.2.3.4.5", "number"}, {"256.0.0.1", "number"},
	{"127.0.0.1.", "part"}, {"0", "number"}, {"0x", "number"}, {"worker.1", "number"}, {"1.1.1.1a", "number"},

	{"[::]", "reserved"}, {"[::1]", "this machine"}, {"[::2]", "reserved"},
	{"[fe80::1]", "reserved"}, {"[febf::1]", "reserved"}, {"[fec0::1]", "reserved"}, {"[fc00::1]", "private"}, {"[fdff::1]", "private"},
	{"[fd00:ec2::254]", "reserved"}, {"[fd20:ce::254]", "reserved"}, {"[ff02::1]", "reserved"}, {"[100::1]", "reserved"}, {"[5f00::1]", "reserved"},
	{"[1fff::1]", "reserved"}, {"[2000::1]", ""}, {"[2001::1]", "reserved"}, {"[2001:1ff::1]", "reserved"}, {"[2001:200::1]", ""},
	{"[2001:db8::1]", "reserved"}, {"[2001:db9::1]", ""}, {"[3ffe::1]", ""}, {"[3fff::1]", "reserved"}, {"[3fff:1000::1]", ""}, {"[4000::1]", "reserved"},

	// IPv6 addresses that stand for an IPv4 address
	{"[::ffff:127.0.0.1]", "this machine"}, {"[::ffff:10.0.0.1]", "private"}, {"[::ffff:169.254.169.254]", "reserved"}, {"[::ffff:8.8.8.8]", ""},
	{"[::127.0.0.1]", "usual form"}, {"[::7f00:1]", "reserved"}, {"[::a00:1]", "reserved"}, {"[::808:808]", "reserved"},
	{"[::ffff:0:7f00:1]", "reserved"}, {"[::ffff:0:127.0.0.1]", "usual form"},
	{"[64:ff9b::7f00:1]", "this machine"}, {"[64:ff9b::a00:1]", "private"}, {"[64:ff9b::a9fe:a9fe]", "reserved"}, {"[64:ff9b::808:808]", ""},
	{"[64:ff9b::127.0.0.1]", "usual form"}, {"[64:ff9b:1::808:808]", "private"}, {"[64:ff9b:0:1::808:808]", "reserved"},
	{"[2002:7f00:1::]", "this machine"}, {"[2002:a00:1::1]", "private"}, {"[2002:a9fe:a9fe::]", "reserved"}, {"[2002:808:808::1]", ""},

	// other spellings of IPv6 addresses
	{"[0:0:0:0:0:0:0:1]", "usual form"}, {"[::0001]", "usual form"}, {"[0::1]", "usual form"}, {"[::FFFF:127.0.0.1]", "this machine"},
	{"[::ffff:7f00:1]", "usual form"}, {"[::ffff:a9fe:a9fe]", "usual form"}, {"[fe80::1%25eth0]", "usual form"}, {"[2606:4700::1111%251]", "usual form"},
	{"[127.0.0.1]", "not a URL"}, {"[localhost]", "not a URL"}, {"[]", "not a URL"}, {"[::1]x", "not a URL"}, {"[::1", "not a URL"},
	{"::1", "not a URL"}, {"[::ffff:127.0.0.01]", "not a URL"}, {"[::ffff:0x7f.1]", "not a URL"},
}

func TestAddressForms(t *testing.T) {
	var policy webhook.Policy
	for _, tt := range hosts {
		err := policy.CheckURL("https://" + tt.host + "/hook")
		ok := err == nil
		for says := range strings.SplitSeq(tt.says, "|") {
			ok = ok || says != "" && err != nil && strings.Contains(err.Error(), says)
		}
		if !ok || (err == nil) != (tt.says == "") {
			t.Errorf("%s: %v, want %q", tt.host, err, tt.says)
		}
	}
}

func TestAllowLocal(t *testing.T) {
	policy := webhook.Policy{AllowLocal: true}
	for raw, says := range map[string]string{
		"http://localhost/hook":            "",
		"http://localhost:80/hook":         "",
		"http://LocalHost:3000/":           "",
		"http://127.0.0.1:3000/":           "",
		"http://127.8.9.1:3000/":           "",
		"http://[::1]:3000/":               "",
		"https://localhost:3000/":          "",
		"https://127.0.0.1:3000/":          "",
		"https://worker.example/":          "",
		"http://worker.example/":           "https",
		"http://8.8.8.8/":                  "https",
		"http://10.0.0.1/":                 "private",
		"https://10.0.0.1/":                "private",
		"http://0.0.0.0:3000/":             "reserved",
		"http://a.localhost:3000/":         "local network",
		"http://localhost.:3000/":          "part",
		"http://localhost.localdomain/":    "local network",
		"http://2130706433/":               "number",
		"http://127.1/":                    "number",
		"http://[::ffff:127.0.0.1]/":       "this machine",
		"http://[64:ff9b::7f00:1]/":        "this machine",
		"http://[2002:7f00:1::]/":          "this machine",
		"http://user@localhost/":           "user name",
		"http://localhost:0/":              "port",
		"http://localhost@worker.example/": "user name",
	} {
		checkURL(t, &policy, raw, says)
	}
}

func TestAllowedTargets(t *testing.T) {
	policy := webhook.Policy{Allow: rules(t, "Worker.internal", "*.corp.example", "intranet", "10.1.0.0/16", "192.168.7.7", "fd00:1::/32")}
	for raw, says := range map[string]string{
		"https://worker.internal/":      "",
		"https://worker.internal:80/":   "",
		"https://other.internal/":       "local network",
		"https://x.worker.internal/":    "local network",
		"https://intranet/":             "",
		"https://a.corp.example:25/":    "",
		"https://a.b.corp.example/":     "",
		"https://corp.example:25/":      "below 1024",
		"https://xcorp.example:25/":     "below 1024",
		"https://public.example/":       "",
		"https://10.1.2.3/":             "",
		"https://10.2.0.0/":             "private",
		"https://192.168.7.7/":          "",
		"https://192.168.7.8/":          "private",
		"https://[fd00:1::5]/":          "",
		"https://[fd00:2::5]/":          "private",
		"https://[::ffff:10.1.2.3]/":    "",
		"http://10.1.2.3/":              "https",
		"http://worker.internal/":       "https",
		"https://user@worker.internal/": "user name",
	} {
		checkURL(t, &policy, raw, says)
	}

	policy.OnlyAllowed = true
	for raw, says := range map[string]string{
		"https://worker.internal/": "",
		"https://10.1.2.3/":        "",
		"https://10.2.0.0/":        "not on the list",
		"https://8.8.8.8/":         "not on the list",
		"https://public.example/":  "", // may lead into one of the ranges; decided when connecting
		"https://[fd00:1::5]/":     "",
	} {
		checkURL(t, &policy, raw, says)
	}

	policy.Allow = rules(t, "worker.example")
	checkURL(t, &policy, "https://worker.example/", "")
	checkURL(t, &policy, "https://public.example/", "not on the list")
	checkURL(t, &policy, "https://8.8.8.8/", "not on the list")

	checkURL(t, &webhook.Policy{OnlyAllowed: true}, "https://public.example/", "not on the list")
	// Only a range says so lets reserved addresses through.
	checkURL(t, &webhook.Policy{Allow: rules(t, "169.254.169.254")}, "https://169.254.169.254/", "")
}

// What a connection may be made to depends on the host in the URL, too.
func TestAddressesOfHosts(t *testing.T) {
	dev := webhook.Policy{AllowLocal: true, Allow: rules(t, "worker.internal", "10.9.0.0/16")}
	only := webhook.Policy{OnlyAllowed: true, Allow: rules(t, "worker.internal", "10.9.0.0/16", "169.254.7.0/24")}
	tests := []struct {
		policy           *webhook.Policy
		host, addr, says string
	}{
		{&dev, "localhost", "127.0.0.1", ""},
		{&dev, "localhost", "::1", ""},
		{&dev, "localhost", "::ffff:127.0.0.1", ""},
		{&dev, "localhost", "10.0.0.1", "leads to another"},
		{&dev, "localhost", "8.8.8.8", "leads to another"},
		{&dev, "localhost", "64:ff9b::7f00:1", "leads to another"},
		{&dev, "worker.example", "127.0.0.1", "of this machine"},
		{&dev, "worker.example", "10.9.0.1", ""},
		{&dev, "worker.example", "::ffff:10.9.0.1", ""},
		{&dev, "worker.example", "64:ff9b::a09:1", "private"},
		{&dev, "worker.internal", "127.0.0.1", ""},
		{&dev, "worker.internal", "10.0.0.1", ""},
		{&dev, "worker.internal", "8.8.8.8", ""},
		{&dev, "worker.internal", "169.254.169.254", "reserved"},
		{&dev, "worker.internal", "0.0.0.0", "reserved"},
		{&dev, "worker.internal", "fe80::1%eth0", "reserved"},
		{&only, "worker.internal", "10.0.0.1", ""},
		{&only, "worker.internal", "169.254.169.254", "reserved"},
		{&only, "worker.internal", "169.254.7.1", ""},
		{&only, "worker.example", "8.8.8.8", "not on the list"},
		{&only, "worker.example", "10.9.0.1", ""},
	}
	for _, tt := range tests {
		if got := tt.policy.CheckAddr(tt.host, tt.addr); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s at %s: %q, want %q", tt.host, tt.addr, got, tt.says)
		}
	}
}

func TestRulesThatMeanNothing(t *testing.T) {
	for _, text := range []string{"", "*", "*.", "a b", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "127.1", "0x7f000001",
		"https://worker.example", "worker.example:443", "a..b", "worker.example.", "a.*.b", "bücher.example", "fe80::1%eth0", "[::1]"} {
		if rule, err := webhook.ParseRule(text); err == nil {
			t.Errorf("%q is taken as the rule %q", text, rule)
		}
	}
}

func TestURLErrorsKeepSecrets(t *testing.T) {
	for _, raw := range []string{"http://a.example/hunter2", "https://u:hunter2@a.example/", "https://a.example/hunter2%zz", "https://hunter2:x/"} {
		err := (&webhook.Policy{}).CheckURL(raw)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// FuzzURL wants of every URL that is allowed what can be said about it without the
// code that allowed it.
func FuzzURL(f *testing.F) {
	for _, tt := range hosts {
		f.Add("https://" + tt.host + ":8443/hook?a=b")
	}
	f.Add("https://a.example@b.example\\c.example#d")
	var policy webhook.Policy
	f.Fuzz(func(t *testing.T, raw string) {
		if policy.CheckURL(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.ContainsAny(raw, "\\@ #") && u.Path == "" && u.RawQuery == "" {
			t.Fatalf("%q is %+v, %v", raw, u, err)
		}
		if policy.CheckURL(u.String()) != nil {
			t.Fatalf("%q is allowed, and %q is not", raw, u)
		}
		host := u.Hostname()
		if ip := net.ParseIP(host); ip != nil {
			if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() {
				t.Fatalf("%q leads to %v", raw, ip)
			}
			return
		}
		last := host[strings.LastIndexByte(host, '.')+1:]
		if !strings.Contains(host, ".") || last == "" || last[0] >= '0' && last[0] <= '9' || strings.ContainsAny(host, ":%[]") {
			t.Fatalf("%q leads to %q", raw, host)
		}
	})
}
