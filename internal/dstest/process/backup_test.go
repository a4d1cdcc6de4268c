package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// snapshot is what the clients of a stream know at this moment. More may have been sent.
func (l *ledger) snapshot() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{path: l.path, json: l.json, acked: maps.Clone(l.acked), open: map[string]bool{}}
}

// sent is the snapshot with all tokens that were sent at some time: those that were not
// acknowledged then may be there.
func (l *ledger) sent(then *ledger) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	for token := range l.acked {
		then.open[token] = true
	}
	for token := range l.open {
		then.open[token] = true
	}
	return then
}

// tool is a command of ds that is running.
type tool struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func startTool(t *testing.T, args ...string) *tool {
	t.Helper()
	c := &tool{cmd: exec.Command(process.Build(t), args...)}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end waits for it and gives its exit code, -1 if it was killed.
func (c *tool) end(t *testing.T) (code int) {
	t.Helper()
	err := c.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// TestBackupKillLoop backs a server up under load, and kills the server or the command in
// the middle, again and again. Every backup that is listed then is whole: what was acknowledged
// before it was begun is in it, nothing is there twice or torn. DS_CRASH_ROUNDS and DS_SEED
// choose how often and which history.
func TestBackupKillLoop(t *testing.T) {
	rounds := int(envInt(t, "DS_CRASH_ROUNDS", 8))
	seed := uint64(envInt(t, "DS_SEED", time.Now().UnixNano()))
	t.Logf("%d rounds, DS_SEED=%d", rounds, seed)
	rng := rand.New(rand.NewPCG(seed, 1<<33))
	base := t.TempDir()
	to := filepath.Join(base, "backups")
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(base, "data"), "--segment-size", "256KiB", "--tail-memory", "1MiB"}}
	ledgers := []*ledger{newLedger("b/text", false), newLedger("b/json", true)}
	var writers []*writer
	for _, l := range ledgers {
		for i := range 3 {
			writers = append(writers, &writer{ledger: l, name: fmt.Sprintf("w%d", i), producer: i == 0})
		}
	}
	before := map[string][]*ledger{} // by the name of a backup's manifest: what was acknowledged when it was begun
	cut := 0
	for round := 0; round < rounds; {
		s := process.Start(t, command)
		c := process.NewClient(s.Streams)
		if round == 0 {
			for _, l := range ledgers {
				if err := l.create(c); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 4 { // so that a backup takes its time
				if a := c.Do(http.MethodPut, fmt.Sprint("bulk/", i), strings.Repeat(fmt.Sprint(i), 4<<20), "Content-Type", "text/plain"); a.Status != http.StatusCreated {
					t.Fatal(a)
				}
			}
		}
		var wg sync.WaitGroup
		for _, w := range writers {
			wg.Go(func() {
				if err := w.run(c); err != nil {
					t.Error(err)
				}
			})
		}
		for killed := false; !killed && round < rounds; round++ {
			then := []*ledger{ledgers[0].snapshot(), ledgers[1].snapshot()}
			args := []string{"backup", to, "--admin-url", s.Admin}
			if rng.IntN(2) == 0 {
				args = append(args, "--full")
			}
			b := startTool(t, args...)
			what, wait := rng.IntN(3), time.Duration(rng.IntN(200))*time.Millisecond
			if round == 0 {
				what = 0
			}
			if what > 0 {
				<-time.After(wait)
			}
			switch what {
			case 1:
				_ = b.cmd.Process.Kill()
			case 2:
				s.Kill()
				killed = true
			}
			code := b.end(t)
			found := newManifests(t, to, before)
			switch {
			case code == 5 && strings.Contains(b.out.String(), "another backup is under way"):
				// The server has not noticed yet that the client before was killed.
			case len(found) == 0 && code == 0, len(found) == 1 && code > 0, len(found) > 1, what == 0 && code != 0:
				t.Fatalf("round %d: exit code %d, new backups %v\n%s\n%s", round, code, found, &b.out, s.Stderr)
			case len(found) == 0:
				cut++
			default:
				before[found[0]] = then
			}
		}
		s.Kill()
		wg.Wait()
		c.Close()
	}
	if v := startTool(t, "backup", "verify", to); v.end(t) != 0 {
		t.Errorf("verify: %s", &v.out)
	}
	t.Logf("%d backups, %d were cut off", len(before), cut)
	for name, then := range before {
		for i, l := range ledgers {
			then[i] = l.sent(then[i])
		}
		wantRestored(t, to, strings.TrimLeft(name[:6], "0"), then, rng)
	}
}

// newManifests gives the names of the backups that are new.
func newManifests(t *testing.T, to string, known map[string][]*ledger) (names []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(to, "manifests"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		if known[e.Name()] == nil && !strings.HasPrefix(e.Name(), "incoming") {
			names = append(names, e.Name())
		}
	}
	return names
}

// wantRestored restores a backup, first with a kill in the middle, and compares what a
// server on it has with what its clients know.
func wantRestored(t *testing.T, to, number string, then []*ledger, rng *rand.Rand) {
	t.Helper()
	half := filepath.Join(t.TempDir(), "half")
	r := startTool(t, "restore", to, half, "--manifest", number)
	<-time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
	_ = r.cmd.Process.Kill()
	r.end(t)
	if _, err := os.Stat(filepath.Join(half, "RESTORE")); err == nil {
		s := startTool(t, "serve", "--data-dir", half, "--listen", "127.0.0.1:0", "--admin-listen", "off")
		if code := s.end(t); code != 1 || !strings.Contains(s.out.String(), "a restore of this data directory has not ended") {
			t.Errorf("a server on half of a backup: code %d, %s", code, &s.out)
		}
	} else if _, err := os.Stat(filepath.Join(half, "journal")); err == nil {
		if c := startTool(t, "check", half); c.end(t) != 0 {
			t.Errorf("no mark, but: %s", &c.out)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if r := startTool(t, "restore", to, dir, "--manifest", number); r.end(t) != 0 {
		t.Errorf("restore: %s", &r.out)
		return
	}
	s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--data-dir", dir}})
	c := process.NewClient(s.Streams)
	for _, l := range then {
		if err := l.verify(c); err != nil {
			t.Errorf("backup %s: %v", number, err)
		}
	}
	for i := range 4 {
		if a := c.ReadAll(fmt.Sprint("bulk/", i), "-1"); a.Body != strings.Repeat(fmt.Sprint(i), 4<<20) {
			t.Errorf("backup %s: bulk %d has %d bytes", number, i, len(a.Body))
		}
	}
	c.Close()
	if err := s.Stop(20 * time.Second); err != nil {
		t.Errorf("stop: %v\n%s", err, s.Stderr)
	}
}
