package process_test

import (
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// flood opens connections that send nothing, as many as can be had and no more than n.
func flood(t *testing.T, host string, n int) (close func(), open int) {
	t.Helper()
	var conns []net.Conn
	for range n {
		c, err := net.DialTimeout("tcp", host, time.Second)
		if err != nil {
			break // the system's queue is full: nobody accepts any more
		}
		conns = append(conns, c)
	}
	return func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}, len(conns)
}

// A server with few descriptors that is flooded with connections goes on to serve those
// that are there, uses no processor for those that are not, writes no flood of lines, and
// is as before when they are gone, without a restart: connections beyond are refused, and
// the files of the archive have descriptors, also where the operator asks for more than
// the limit on open files leaves.
func TestNoDescriptors(t *testing.T) {
	for name, args := range map[string][]string{"by default": nil, "without a limit": {"--max-connections", "100000"}} {
		for _, adapter := range []string{"--fast-path", "--no-fast-path"} {
			t.Run(name+", "+adapter, func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "data")
				command := process.Command{Binary: process.Build(t), Prefix: []string{"sh", "-c", `ulimit -n 200 && exec "$@"`, "limited"},
					Args: append([]string{"--data-dir", data, "--segment-size", "256KiB", "--tail-memory", "1MiB", adapter}, args...)}
				s := process.Start(t, command)
				c := process.NewClient(s.Streams)
				load := &steady{path: "a"}
				load.create(t, c)
				load.during(s, c, 300*time.Millisecond)
				u, err := url.Parse(s.Streams)
				must(t, err)
				release, open := flood(t, u.Host, 600)
				defer release()
				if open < 200 {
					t.Fatalf("%d connections could be opened", open)
				}
				load.statuses = map[int]int{}
				before, acked, begin := cpuTime(t, s.Pid()), load.acked, time.Now()
				for time.Since(begin) < 4*time.Second { // 2 MB or so: several segments and flushes
					load.once(c)
					time.Sleep(15 * time.Millisecond)
				}
				t.Logf("%d connections, %d files, CPU %v in 4 s, answers %v", open, files(t, s.Pid()), cpuTime(t, s.Pid())-before, load.statuses)
				if used := cpuTime(t, s.Pid()) - before; used > 2*time.Second {
					t.Errorf("it used %v of the processor in 4 s", used)
				}
				if load.acked-acked < 50 {
					t.Errorf("only %d appends on the connection that was there: %v\n%s", load.acked-acked, load.statuses, s.Stderr)
				}
				for status := range load.statuses {
					if status != http.StatusOK {
						t.Errorf("an append is answered with %d", status)
					}
				}
				if warned := strings.Contains(s.Stderr.String(), "fewer connections than asked for"); warned != (len(args) > 0) {
					t.Errorf("it warns of the limit: %v\n%s", warned, s.Stderr)
				}
				if n := strings.Count(s.Stderr.String(), "\n"); n > 60 {
					t.Errorf("%d lines in the log\n%s", n, s.Stderr)
				}
				release()
				resumes(t, s, func() bool {
					other := process.NewClient(s.Streams)
					defer other.Close()
					a := other.Do(http.MethodPut, "b", "x", "Content-Type", "text/plain")
					return a.Status == http.StatusCreated || a.Status == http.StatusOK
				})
				resumes(t, s, func() bool { return load.once(c) })
				load.during(s, c, time.Second)
				load.verify(t, c)
				c.Close()
				if err := s.Stop(20 * time.Second); err != nil {
					t.Fatalf("%v\n%s", err, s.Stderr)
				}
				s = process.Start(t, command)
				c = process.NewClient(s.Streams)
				load.verify(t, c)
				c.Close()
				if n := len(contents(t, filepath.Join(data, "archive"))); n > 40 {
					t.Errorf("the archive has %d files: nothing is put together any more", n)
				}
			})
		}
	}
}
