package process_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// While a server uses a data directory nothing else gets at it, by whatever path: another
// server, a check, a repair and a look end at once, name the server's process, and change
// nothing; the server does not notice. A lock that a killed server has left keeps nobody
// out.
func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	data, link, bound := filepath.Join(dir, "data"), filepath.Join(dir, "link"), filepath.Join(dir, "bound")
	paths := []string{data, link}
	must(t, errors.Join(os.Mkdir(data, 0o755), os.Symlink("data", link), os.Mkdir(bound, 0o755)))
	if err := syscall.Mount(data, bound, "", syscall.MS_BIND, ""); err == nil {
		defer func() { _ = syscall.Unmount(bound, syscall.MNT_DETACH) }()
		paths = append(paths, bound)
	} else {
		t.Logf("without a bind mount, which takes root: %v", err)
	}
	binary := process.Build(t)
	command := process.Command{Binary: binary, Args: []string{"--data-dir", data, "--segment-size", "256KiB"}}
	load := &steady{path: "a"}
	for round := range 2 {
		s := process.Start(t, command)
		c := process.NewClient(s.Streams)
		if round == 0 {
			load.create(t, c)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			load.during(s, c, 2*time.Second)
		}()
		for _, path := range paths {
			for _, tool := range [][]string{{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data-dir", path}, {"check", path}, {"check", "--repair", path}, {"inspect", path}} {
				begin := time.Now()
				out, err := exec.Command(binary, tool...).CombinedOutput()
				exit, ok := errors.AsType[*exec.ExitError](err)
				want := fmt.Sprintf("ds: %s is in use by another server (process %d); stop it first, or use another directory\n", path, s.Pid())
				if !ok || exit.ExitCode() != 1 || string(out) != want {
					t.Errorf("ds %s: %v %q, want %q", strings.Join(tool, " "), err, out, want)
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("ds %s took %v", strings.Join(tool, " "), took)
				}
			}
		}
		<-over
		if len(load.statuses) != 1 || load.acked < 10 {
			t.Errorf("the first server answered %v\n%s", load.statuses, s.Stderr)
		}
		load.verify(t, c)
		c.Close()
		if round == 0 {
			s.Kill() // the lock file stays
			if _, err := os.Stat(filepath.Join(data, "LOCK")); err != nil {
				t.Error(err)
			}
			continue
		}
		must(t, s.Stop(20*time.Second))
	}
	if out, err := exec.Command(binary, "check", data).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A server that stands still for half a minute, as one on a machine that is suspended,
// goes on where it was: nobody else gets the directory meanwhile, requests that waited
// are answered or given up by their clients, and nothing is lost.
func TestStandStill(t *testing.T) {
	t.Parallel() // beside what waits too
	data := filepath.Join(t.TempDir(), "data")
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", data, "--segment-size", "256KiB"}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	loads := []*steady{{path: "a"}, {path: "b"}, {path: "c"}}
	over := make(chan struct{}, len(loads))
	for _, load := range loads {
		load.create(t, c)
		go func() {
			load.during(s, c, 36*time.Second)
			over <- struct{}{}
		}()
	}
	time.Sleep(time.Second)
	must(t, s.Signal(syscall.SIGSTOP))
	second, stdout, err := process.Launch(command)
	must(t, err)
	if _, err := second.Await(stdout); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", s.Pid())) {
		t.Errorf("a second server meanwhile: %v", err)
	}
	second.Kill()
	time.Sleep(30 * time.Second)
	must(t, s.Signal(syscall.SIGCONT))
	for range loads {
		<-over
	}
	for _, load := range loads {
		before := load.acked
		if load.during(s, c, 200*time.Millisecond); load.acked == before {
			t.Errorf("%s: no service after it: %v\n%s", load.path, load.statuses, s.Stderr)
		}
		load.verify(t, c)
	}
	if strings.Contains(s.Stderr.String(), "level=ERROR") {
		t.Errorf("log:\n%s", s.Stderr)
	}
	must(t, s.Stop(20*time.Second))
}
