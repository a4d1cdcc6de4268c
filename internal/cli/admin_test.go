package cli_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"durablestreams/internal/cli"
)

// Two servers on one machine get along: nobody has asked for the admin address.
func TestDefaultAdminAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:8643")
	if err != nil {
		t.Skipf("somebody else has the port: %v", err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it starts and stops
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, []string{"serve", "--in-memory", "--listen", "127.0.0.1:0"}, &cli.Env{LookupEnv: unset, Stdout: &stdout, Stderr: &stderr})
	if code != 0 || strings.Contains(stdout.String(), "admin") || !strings.Contains(stderr.String(), `level=WARN msg="no admin address`) {
		t.Errorf("code %d\n%s\n%s", code, &stdout, &stderr)
	}
}
