package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// healthCommand is "ds health".
type healthCommand struct {
	AdminURL string        `group:"server" name:"admin-url" default:"http://127.0.0.1:8643" placeholder:"${default}" help:"Admin address of the server."`
	Live     bool          `help:"Ask only whether the process works, as when it may be about to be restarted."`
	Timeout  time.Duration `default:"3s" placeholder:"${default}" help:"How long to wait for its answer."`
}

// Help is the text below the summary.
func (healthCommand) Help() string {
	return `Asks whether the server is ready for clients, and ends with exit code 0 if it is. For containers, which have no curl.

Example:

    ds health && echo ready`
}

// maxReason is how much of a reason is shown, in bytes.
const maxReason = 1 << 10

// Run asks.
func (c *healthCommand) Run(ctx context.Context, env *Env) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	what := "/readyz"
	if c.Live {
		what = "/healthz"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.AdminURL, "/")+what, nil)
	if err != nil {
		return usageError{fmt.Errorf("--admin-url: %w", err)}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("the server cannot be asked: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReason))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New("not ready: " + printable(strings.TrimSpace(string(text))))
	}
	_, err = fmt.Fprintln(env.Stdout, "ready")
	return err
}

// printable takes out what could move a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
