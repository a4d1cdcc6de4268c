package process_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// steady is a producer that appends one numbered line after the other and repeats what
// was not acknowledged. It is for one goroutine.
type steady struct {
	path     string
	acked    int
	statuses map[int]int // 0: no answer
}

func (s *steady) create(t *testing.T, c *process.Client) {
	t.Helper()
	if a := c.Do(http.MethodPut, s.path, "", "Content-Type", "text/plain"); a.Status != http.StatusCreated {
		t.Fatalf("create %s: %v", s.path, a)
	}
	s.statuses = map[int]int{}
}

// line is 8 KiB, so that segments end and the archive is written.
func (s *steady) line(i int) string { return fmt.Sprintf("%08d%s\n", i, strings.Repeat("x", 8<<10)) }

// once appends the next line, or the last one again.
func (s *steady) once(c *process.Client) (ok bool) {
	a := c.Do(http.MethodPost, s.path, s.line(s.acked), append(process.Producer("steady", 0, s.acked), "Content-Type", "text/plain")...)
	s.statuses[a.Status]++
	if ok = a.Status == http.StatusOK || a.Status == http.StatusNoContent; ok {
		s.acked++
	}
	return ok
}

// during appends for so long, and stops early when the server has ended.
func (s *steady) during(server *process.Server, c *process.Client, d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		select {
		case <-server.Ended():
			return
		default:
			if !s.once(c) {
				<-time.After(10 * time.Millisecond)
			}
		}
	}
}

// verify says whether everything is there that was acknowledged, and nothing else but
// perhaps the line after it.
func (s *steady) verify(t *testing.T, c *process.Client) {
	t.Helper()
	a := c.ReadAll(s.path, "-1")
	if a.Err != nil || a.Status != http.StatusOK {
		t.Fatalf("read %s: %d %v", s.path, a.Status, a.Err)
	}
	var want strings.Builder
	for i := range s.acked {
		want.WriteString(s.line(i))
	}
	if a.Body != want.String() && a.Body != want.String()+s.line(s.acked) {
		t.Fatalf("%s holds %d bytes, %d lines were acknowledged: %s", s.path, len(a.Body), s.acked, brief(a.Body))
	}
}

// ends waits for the end of a server that cannot go on, and says what it said last.
func ends(t *testing.T, s *process.Server, within time.Duration) string {
	t.Helper()
	select {
	case <-s.Ended():
	case <-time.After(within):
		t.Fatalf("it goes on\n%s", s.Stderr)
	}
	if exit, ok := errors.AsType[*exec.ExitError](s.Err()); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ends with %v, want exit code 1\n%s", s.Err(), s.Stderr)
	}
	lines := strings.Split(s.Stderr.String(), "\n")
	return lines[len(lines)-1]
}

// must fails the test with what went wrong.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A data directory that is taken away under a server, or replaced by something else, ends
// it within seconds; what it acknowledged is where the directory is now, and what took its
// place is left alone.
func TestDirectoryGoes(t *testing.T) {
	const removed, replaced = `has been removed$`, `has been (replaced by another one|removed)$`
	other := func(t *testing.T, at string) { // another data directory, with files of the same names
		s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--data-dir", at}})
		c := process.NewClient(s.Streams)
		defer c.Close()
		if a := c.Do(http.MethodPut, "other", "x", "Content-Type", "text/plain"); a.Status != http.StatusCreated {
			t.Fatal(a)
		}
		must(t, s.Stop(20*time.Second))
	}
	for name, tt := range map[string]struct {
		put  func(t *testing.T, next string) // what takes its place; nil: nothing
		says string
	}{
		"moved":                  {nil, removed},
		"an empty one":           {func(t *testing.T, next string) { must(t, os.Mkdir(next, 0o755)) }, removed},
		"a file":                 {func(t *testing.T, next string) { must(t, os.WriteFile(next, []byte("a file"), 0o644)) }, removed},
		"another data directory": {other, replaced},
		"a link to another data directory": {func(t *testing.T, next string) {
			must(t, os.Symlink(next+"-2", next))
			other(t, next+"-2")
		}, replaced},
		"a link to nothing": {func(t *testing.T, next string) { must(t, os.Symlink("nothing", next)) }, removed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data, away, next := filepath.Join(dir, "data"), filepath.Join(dir, "away"), filepath.Join(dir, "next")
			if tt.put != nil {
				tt.put(t, next)
			}
			before := contents(t, next)
			command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", data, "--segment-size", "256KiB"}}
			s := process.Start(t, command)
			c := process.NewClient(s.Streams)
			load := &steady{path: "a"}
			load.create(t, c)
			load.during(s, c, 500*time.Millisecond)
			must(t, os.Rename(data, away))
			if tt.put != nil {
				must(t, os.Rename(next, data))
			}
			load.during(s, c, 20*time.Second)
			// Or it meets that by itself, when it needs the next file.
			if last := ends(t, s, 20*time.Second); !regexp.MustCompile(`^ds: the disk failed, so the server has to stop: (.*the data directory ` + tt.says + `|.*/data/.*: (no such file or|not a) directory)`).MatchString(last) {
				t.Errorf("it says %q, want %q", last, tt.says)
			}
			if after := contents(t, data); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("what took its place has changed: %d files, were %d", len(after), len(before))
			}
			c.Close()
			t.Logf("%v\n%s", load.statuses, s.Stderr)
			command.Args[1] = away
			s = process.Start(t, command)
			c = process.NewClient(s.Streams)
			load.verify(t, c)
			if load.acked < 3 {
				t.Errorf("%d lines acknowledged", load.acked)
			}
			c.Close()
		})
	}
}

// contents gives the files below a path, if there are any.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	if at, err := filepath.EvalSymlinks(root); err == nil {
		root = at
	}
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		all[name] = string(b)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(t, err)
	return all
}

// A data directory that is deleted ends the server too; there is nothing to find then.
func TestDirectoryIsDeleted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--data-dir", data}})
	must(t, os.RemoveAll(data))
	if last := ends(t, s, 20*time.Second); !strings.Contains(last, "the data directory has been removed") {
		t.Errorf("it says %q", last)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there again: %v", err)
	}
}

// unprivileged is how to run a program that permissions hold for, and whose it is.
func unprivileged(t *testing.T) (prefix []string, uid int) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil, os.Getuid()
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("permissions do not hold for root, and there is no setpriv to run the server as somebody else")
	}
	return []string{setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"}, 65534
}

// openFolder makes a folder that everybody can reach and only uid can write to.
func openFolder(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ds-open-") // below t.TempDir others reach nothing
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, errors.Join(os.Chown(dir, uid, -1), os.Chmod(dir, 0o755)))
	return dir
}

// reachable is the binary where everybody can run it.
func reachable(t *testing.T, uid int) string {
	t.Helper()
	b, err := os.ReadFile(process.Build(t))
	must(t, err)
	path := filepath.Join(openFolder(t, uid), "ds")
	must(t, os.WriteFile(path, b, 0o755))
	return path
}

// A data directory that may not be written to any more while the server runs ends it
// with the reason, without a flood in the log, and what it acknowledged is there when it
// may be written to again.
func TestDirectoryBecomesReadOnly(t *testing.T) {
	prefix, uid := unprivileged(t)
	binary := reachable(t, uid)
	for name, parts := range map[string][]string{"all of it": {"", "journal", "archive"}, "the journal": {"journal"}, "the archive": {"archive"}} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(openFolder(t, uid), "data")
			command := process.Command{Binary: binary, Prefix: prefix, Args: []string{"--data-dir", data, "--segment-size", "256KiB"}}
			s := process.Start(t, command)
			c := process.NewClient(s.Streams)
			load := &steady{path: "a"}
			load.create(t, c)
			load.during(s, c, 500*time.Millisecond)
			for _, part := range parts {
				must(t, os.Chmod(filepath.Join(data, part), 0o555))
			}
			load.during(s, c, 20*time.Second)
			if last := ends(t, s, 20*time.Second); !regexp.MustCompile(`^ds: the disk failed, so the server has to stop: .*/data/.*: permission denied$`).MatchString(last) {
				t.Errorf("it says %q", last)
			}
			if n := s.Stderr.Written(); n > 16<<10 {
				t.Errorf("it has logged %d bytes\n%s", n, s.Stderr)
			}
			c.Close()
			second, stdout, err := process.Launch(command)
			must(t, err)
			defer second.Kill()
			if _, err := second.Await(stdout); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("a start without the right to write: %v", err)
			}
			for _, part := range parts {
				must(t, os.Chmod(filepath.Join(data, part), 0o755))
			}
			s = process.Start(t, command)
			c = process.NewClient(s.Streams)
			load.verify(t, c)
			load.during(s, c, 200*time.Millisecond)
			load.verify(t, c)
			c.Close()
		})
	}
}

// A start where there cannot be a data directory ends at once with exit code 1 and the
// reason, and changes nothing.
func TestNoDirectory(t *testing.T) {
	prefix, uid := unprivileged(t)
	binary := reachable(t, uid)
	for name, tt := range map[string]struct {
		dir  func(t *testing.T) string
		says string
	}{
		"a file": {func(t *testing.T) string {
			path := filepath.Join(openFolder(t, uid), "file")
			must(t, os.WriteFile(path, []byte("a file"), 0o644))
			return path
		}, `not a directory$`},
		"below a file": {func(t *testing.T) string {
			path := filepath.Join(openFolder(t, uid), "file")
			must(t, os.WriteFile(path, []byte("a file"), 0o644))
			return filepath.Join(path, "data")
		}, `not a directory$`},
		"a link to nothing": {func(t *testing.T) string {
			path := filepath.Join(openFolder(t, uid), "link")
			must(t, os.Symlink("/nowhere/at/all", path))
			return path
		}, `/link: .*(file exists|no such file or directory)`},
		"nobody may make one": {func(t *testing.T) string {
			path := openFolder(t, uid)
			must(t, os.Chmod(path, 0o555))
			return filepath.Join(path, "data")
		}, `^ds: no permission to use the data directory .*/data: .*permission denied$`},
		"nobody may write to it": {func(t *testing.T) string {
			path := openFolder(t, uid)
			must(t, os.Chmod(path, 0o555))
			return path
		}, `^ds: no permission to use the data directory .*permission denied$`},
		"a read-only file system": {func(t *testing.T) string {
			path := smallDisk(t, "1m")
			must(t, syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			return filepath.Join(path, "data")
		}, `read-only file system$`},
		"a used one on a read-only file system": {func(t *testing.T) string {
			path := smallDisk(t, "8m")
			data := filepath.Join(path, "data")
			s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--data-dir", data}})
			must(t, s.Stop(20*time.Second))
			must(t, syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			return data
		}, `read-only file system$`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tt.dir(t)
			command := process.Command{Binary: binary, Prefix: prefix, Args: []string{"--data-dir", dir}}
			if strings.Contains(name, "read-only") {
				command.Binary, command.Prefix = process.Build(t), nil // it is so for root too
			}
			place := dir
			if _, err := os.Lstat(dir); err != nil {
				place = filepath.Dir(dir)
			}
			before := contents(t, place)
			s, stdout, err := process.Launch(command)
			must(t, err)
			defer s.Kill()
			if _, err := s.Await(stdout); err == nil {
				t.Fatal("it serves")
			}
			if last := ends(t, s, 20*time.Second); !regexp.MustCompile(tt.says).MatchString(last) {
				t.Errorf("it says %q, want %s", last, tt.says)
			}
			if after := contents(t, place); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it has changed files: %d, were %d", len(after), len(before))
			}
		})
	}
	t.Run("without a parent", func(t *testing.T) { // which is made
		data := filepath.Join(t.TempDir(), "a", "b", "data")
		s := process.Start(t, process.Command{Binary: process.Build(t), Args: []string{"--data-dir", data}})
		must(t, s.Stop(20*time.Second))
	})
}
