package web_test

import (
	"context"
	"net"
	"os"
	"regexp"
	"testing"
	"time"

	"durablestreams"
	"durablestreams/internal/dstest/node"
)

// browserTests is what page.test.mjs holds.
const browserTests = "8"

// TestBrowser works with the page in a headless Chromium, which comes from npm. With
// DS_SHOTS set to a folder it leaves pictures there.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a browser")
	}
	const dir = "browser"
	node.Install(t, dir)
	admin := listen(t)
	s, err := durablestreams.Open("", &durablestreams.Options{InMemory: true, AdminListener: admin, ShutdownGrace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	origin := "http://" + admin.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	env := []string{"PAGE=" + origin + "/ui/", "STREAMS=" + origin + s.Root(), "SHOTS=" + os.Getenv("DS_SHOTS")}
	out, err := node.Run(ctx, dir, env, "node", "--test", "--test-force-exit", "--test-reporter=tap", "page.test.mjs")
	passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindStringSubmatch(out)
	if err != nil || passed == nil || passed[1] != browserTests {
		t.Errorf("%v\n%s", err, out)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
