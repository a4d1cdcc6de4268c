package web_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/internal/dstest/node"
)

// TestBrowser works with the page in a headless Chromium, which comes from npm. With
// DS_SHOTS set to a folder it leaves pictures there.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a browser")
	}
	const dir = "browser"
	node.Install(t, dir)
	t.Run("admin", func(t *testing.T) {
		admin := listen(t)
		s := open(t, &durablestreams.Options{AdminListener: admin})
		origin := "http://" + admin.Addr().String()
		browse(t, dir, "page.test.mjs", "8", "PAGE="+origin+"/ui/", "STREAMS="+origin+s.Root(), "SHOTS="+os.Getenv("DS_SHOTS"))
	})
	t.Run("read-only", func(t *testing.T) {
		clerk, clerkLine := key(t, "read:orders/**")
		boss, bossLine := key(t, "all:**")
		file := filepath.Join(t.TempDir(), "access")
		if err := os.WriteFile(file, []byte(clerkLine+"\n"+bossLine+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		all := serve(t, &durablestreams.Options{ReadOnlyPage: true})
		some := serve(t, &durablestreams.Options{ReadOnlyPage: true, Access: &auth.Options{File: file}})
		browse(t, dir, "public.test.mjs", "4", "OPEN="+all.page, "OPEN_STREAMS="+all.streams, "LOCKED="+some.page, "LOCKED_STREAMS="+some.streams, "CLERK="+clerk, "BOSS="+boss)
	})
}

// browse runs a file of so many tests.
func browse(t *testing.T, dir, file, tests string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	out, err := node.Run(ctx, dir, env, "node", "--test", "--test-force-exit", "--test-reporter=tap", file)
	passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindStringSubmatch(out)
	if err != nil || passed == nil || passed[1] != tests {
		t.Errorf("%v\n%s", err, out)
	}
}

func key(t *testing.T, grant string) (key, line string) {
	t.Helper()
	g, err := auth.ParseGrant(grant)
	if err != nil {
		t.Fatal(err)
	}
	if key, line, err = auth.NewKey("somebody", []auth.Grant{g}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	return key, line
}

func open(t *testing.T, o *durablestreams.Options) *durablestreams.Server {
	t.Helper()
	o.InMemory, o.ShutdownGrace = true, 100*time.Millisecond
	s, err := durablestreams.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// served is a server on a port of this machine.
type served struct{ page, streams string }

func serve(t *testing.T, o *durablestreams.Options) served {
	t.Helper()
	s, ln := open(t, o), listen(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	origin := "http://" + ln.Addr().String()
	return served{origin + s.PageURL(), origin + s.Root()}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
