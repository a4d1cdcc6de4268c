package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/internal/cli"
)

// everyFlag sets each flag to something else than its default.
var everyFlag = []string{
	"--base-path=/b", "--public-url=https://p.example", "--trusted-proxies=10.0.0.0/8,unix", "--tls-cert=c.pem", "--tls-key=k.pem", "--cors-origins=https://a.example,https://b.example", "--page=read-only", "--no-fast-path", "--event-loops=3",
	"--access-file=a", "--jwt-keys=https://i.example/keys", "--jwt-issuer=i", "--jwt-audience=us", "--access-hide",
	"--in-memory", "--max-memory=17MiB", "--segment-size=1MiB", "--tail-memory=2 MiB", "--cache-size=3m",
	"--webhook-allow-local", "--webhook-allow=w.internal,10.1.0.0/16", "--webhook-only-allowed", "--max-subscriptions=12", "--tenants-file=f",
	"--max-body=4MB", "--max-inflight=9MB", "--max-unsent=12MB", "--max-queued=13MB", "--max-live=14", "--max-reads=15", "--max-sends=16", "--max-header=5KB", "--page-size=0.5MiB", "--max-connections=7", "--stall-timeout=8s",
	"--long-poll-timeout=9ms", "--sse-max-age=10m", "--shutdown-grace=11s", "--access-log", "--slow-request=12s", "--otlp-endpoint=http://127.0.0.1:4318",
}

var everyOption = durablestreams.Options{
	BasePath: "/b", PublicURL: "https://p.example", TrustedProxies: []string{"10.0.0.0/8", "unix"}, TLSCert: "c.pem", TLSKey: "k.pem", AllowedOrigins: []string{"https://a.example", "https://b.example"}, ReadOnlyPage: true, NoFastPath: true, EventLoops: 3,
	Access:   &auth.Options{File: "a", JWT: &auth.JWT{Keys: "https://i.example/keys", Issuer: "i", Audience: "us"}, Hide: true},
	InMemory: true, MaxMemory: 17 << 20, SegmentSize: 1 << 20, TailMemory: 2 << 20, CacheSize: 3 << 20,
	WebhookAllowLocal: true, WebhookAllow: []string{"w.internal", "10.1.0.0/16"}, WebhookOnlyAllowed: true, MaxSubscriptions: 12, TenantsFile: "f",
	MaxBody: 4e6, MaxInflight: 9e6, MaxUnsent: 12e6, MaxQueued: 13e6, MaxLive: 14, MaxReads: 15, MaxSends: 16, MaxHeader: 5e3, PageSize: 512 << 10, MaxConnections: 7, StallTimeout: 8 * time.Second,
	LongPollTimeout: 9 * time.Millisecond, SSEMaxAge: 10 * time.Minute, ShutdownGrace: 11 * time.Second, AccessLog: true, SlowRequest: 12 * time.Second, OTLPEndpoint: "http://127.0.0.1:4318",
}

func unset(string) (string, bool) { return "", false }

func TestServeOptions(t *testing.T) {
	got, err := cli.ServeOptions(everyFlag, unset)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, everyOption) {
		t.Errorf("flags give\n%+v, want\n%+v", *got, everyOption)
	}
	v := reflect.ValueOf(everyOption)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Logger" && name != "AdminListener" {
			t.Errorf("there is no flag for the option %s, or this test does not set it", name)
		}
	}

	// The same from the environment, and from a file.
	env, file := map[string]string{}, ""
	for _, f := range everyFlag {
		name, value, _ := strings.Cut(strings.TrimPrefix(f, "--"), "=")
		if value == "" {
			value = "true"
		}
		if rest, negated := strings.CutPrefix(name, "no-"); negated {
			name, value = rest, "false"
		}
		env["DS_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
		file += fmt.Sprintf("%s = %s\n", name, asTOML(value))
	}
	got, err = cli.ServeOptions(nil, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil || !reflect.DeepEqual(*got, everyOption) {
		t.Errorf("the environment gives\n%+v, %v, want\n%+v", got, err, everyOption)
	}
	name := filepath.Join(t.TempDir(), "ds.toml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = cli.ServeOptions([]string{"--config", name}, unset)
	if err != nil || !reflect.DeepEqual(*got, everyOption) {
		t.Errorf("the file\n%s\ngives\n%+v, %v, want\n%+v", file, got, err, everyOption)
	}
}

// asTOML gives a flag's value as it stands in a file.
func asTOML(value string) string {
	if _, err := strconv.Atoi(value); err == nil || value == "true" || value == "false" {
		return value
	}
	if strings.Contains(value, ",") {
		return "[" + strings.Join(quoted(strings.Split(value, ",")), ", ") + "]"
	}
	return strconv.Quote(value)
}

func quoted(list []string) (q []string) {
	for _, s := range list {
		q = append(q, strconv.Quote(s))
	}
	return q
}

// What the help calls the defaults are the package's own.
func TestServeDefaults(t *testing.T) {
	got, err := cli.ServeOptions(nil, unset)
	if err != nil {
		t.Fatal(err)
	}
	want := durablestreams.Options{BasePath: "/durable-streams", MaxSubscriptions: 100_000, MaxBody: 16 << 20, MaxHeader: 64 << 10, PageSize: 1 << 20,
		StallTimeout: 30 * time.Second, LongPollTimeout: 30 * time.Second, SSEMaxAge: time.Minute, ShutdownGrace: 10 * time.Second}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, want %+v", *got, want)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "7b": 7, "64KiB": 64 << 10, "64 kib": 64 << 10, "64k": 64 << 10, "64KB": 64e3, "1.5MiB": 3 << 19, "16M": 16 << 20,
		"1GB": 1e9, "1g": 1 << 30,
		"": -1, "MiB": -1, "-1": -1, "1.3": -1, "1e3": -1, "1TiB": -1, "1 2": -1, "0x10": -1, "99999999999GiB": -1, "1..2": -1, "NaN": -1,
	} {
		got, err := cli.ServeOptions([]string{"--max-body=" + text}, unset)
		switch {
		case want < 0 && err == nil:
			t.Errorf("%q is taken as %d", text, got.MaxBody)
		case want >= 0 && (err != nil || got.MaxBody != want):
			t.Errorf("%q: %+v, %v, want %d", text, got, err, want)
		}
	}
}
