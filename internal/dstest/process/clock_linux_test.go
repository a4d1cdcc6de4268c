package process_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// steppedClock is put beside the sources of package time: the wall clock of a program
// that is built so is off by what a file says, the monotonic clock is not.
const steppedClock = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var clockStep = openClockStep()

func openClockStep() *int64 {
	path, ok := syscall.Getenv("DS_TEST_CLOCK")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		panic(err)
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}

func steppedSeconds() int64 { return atomic.LoadInt64(clockStep) }
`

// buildStepped builds ds with a clock that can be set for it alone. There is nothing of
// that in the program itself.
func buildStepped(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the standard library anew")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	must(t, err)
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	b, err := os.ReadFile(filepath.Join(source, "time.go"))
	must(t, err)
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(b), reads) != 1 {
		t.Skipf("time.Now of %s is not what this test knows how to change", runtime.Version())
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"):    write("time.go", strings.Replace(string(b), reads, reads+"\tsec += steppedSeconds()\n", 1)),
		filepath.Join(source, "stepped.go"): write("stepped.go", steppedClock),
	}})
	must(t, err)
	binary := filepath.Join(dir, "ds")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", binary, "durablestreams/cmd/ds").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// TestClockSteps sets the clock of a server forward and back, by minutes, hours and a
// day, under load, and kills it in between. What has a lifetime ends by the clock and nothing else
// does; leases end by the clock where it goes forward, and in time where it goes back;
// producers, cursors and order know of no clock. What is over by a clock that is ahead
// stays over once the server has noticed, in 10 s.
func TestClockSteps(t *testing.T) {
	t.Parallel() // beside what waits too
	clock := filepath.Join(t.TempDir(), "clock")
	off := time.Duration(0)
	set := func(to time.Duration) {
		t.Helper()
		off = to
		f, err := os.OpenFile(clock, os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(to/time.Second))), 0) // in place: it is mapped
		must(t, err)
		must(t, f.Close())
	}
	set(0)
	command := process.Command{Binary: buildStepped(t), Env: []string{"DS_TEST_CLOCK=" + clock},
		Args: []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--segment-size", "256KiB"}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	do := func(status int, method, target, body string, headers ...string) *process.Answer {
		t.Helper()
		a := c.Do(method, target, body, headers...)
		if a.Status != status {
			t.Fatalf("%s %s with the clock off by %v: %v, want %d\n%s", method, target, off, a, status, s.Stderr)
		}
		return a
	}
	text := []string{"Content-Type", "text/plain"}
	load := &steady{path: "a"}
	load.create(t, c)
	for _, ttl := range []string{"3600", "10800", "864000"} {
		do(201, "PUT", "ttl/"+ttl, "x", append(text, "Stream-TTL", ttl)...)
	}
	do(201, "PUT", "date/near", "x", append(text, "Stream-Expires-At", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))...)
	do(201, "PUT", "date/far", "x", append(text, "Stream-Expires-At", "2120-01-01T00:00:00Z")...)
	do(201, "PUT", "wakes", "", "Content-Type", "application/json")
	do(201, "PUT", "__ds/subscriptions/long", `{"type":"pull-wake","pattern":"work/*","wake_stream":"wakes","lease_ttl_ms":600000}`)
	do(201, "PUT", "__ds/subscriptions/short", `{"type":"pull-wake","pattern":"work/*","wake_stream":"wakes","lease_ttl_ms":2000}`)
	do(201, "PUT", "work/a", "x", text...)
	take := func(name string) (wake claim) {
		t.Helper()
		var a *process.Answer
		resumes(t, s, func() bool { // a lease that is over needs a moment
			a = c.Do("POST", "__ds/subscriptions/"+name+"/claim", `{"worker":"w"}`)
			return a.Status == http.StatusOK
		})
		must(t, json.Unmarshal([]byte(a.Body), &wake))
		return wake
	}
	beat := func(name string, wake claim) int {
		return c.Do("POST", "__ds/subscriptions/"+name+"/ack", fmt.Sprintf(`{"wake_id":%q,"generation":%d}`, wake.WakeID, wake.Generation), "Authorization", "Bearer "+wake.Token).Status
	}
	there := func(want map[string]int) {
		t.Helper()
		for path, status := range want {
			do(status, "HEAD", path, "")
		}
	}
	calm := func(what string) {
		t.Helper()
		before := cpuTime(t, s.Pid())
		time.Sleep(2 * time.Second)
		if used := cpuTime(t, s.Pid()) - before; used > time.Second {
			t.Errorf("%s it uses %v of the processor in 2 s", what, used)
		}
		before2 := load.acked
		if load.during(s, c, 300*time.Millisecond); load.acked == before2 || len(load.statuses) != 1 {
			t.Errorf("%s: %d appends, answers %v\n%s", what, load.acked-before2, load.statuses, s.Stderr)
		}
	}
	load.during(s, c, 300*time.Millisecond)
	held, brief := take("long"), take("short")

	set(-24 * time.Hour)
	calm("a day back")
	there(map[string]int{"ttl/3600": 200, "ttl/10800": 200, "ttl/864000": 200, "date/near": 200, "date/far": 200})
	if status := beat("long", held); status != http.StatusOK {
		t.Errorf("the holder of a lease, a day back: %d", status)
	}
	if again := take("short"); again.Generation <= brief.Generation {
		t.Errorf("a lease of 2 s, a day back: %+v after %+v", again, brief)
	}
	do(201, "PUT", "ttl/young", "x", append(text, "Stream-TTL", "3600")...) // a day before the others

	s.Kill()
	c.Close()
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	load.verify(t, c)
	calm("a day back, after a crash")
	if status := beat("long", held); status != http.StatusOK {
		t.Errorf("the holder of a lease, a day back and after a crash: %d", status)
	}

	set(5 * time.Minute)
	calm("5 minutes ahead")
	there(map[string]int{"ttl/young": 404, "ttl/3600": 200, "ttl/10800": 200, "ttl/864000": 200, "date/near": 200, "date/far": 200, "work/a": 200, "a": 200})

	set(2 * time.Hour)
	calm("2 hours ahead")
	there(map[string]int{"ttl/3600": 404, "date/near": 404, "ttl/10800": 200, "ttl/864000": 200, "date/far": 200, "work/a": 200, "wakes": 200, "a": 200})
	if next := take("long"); next.Generation <= held.Generation {
		t.Errorf("a lease that is over by the clock: %+v after %+v", next, held)
	}
	if status := beat("long", held); status == http.StatusOK {
		t.Error("two have the lease")
	}

	time.Sleep(11 * time.Second) // the server looks at the clock again within 10 s
	set(0)
	calm("right again")
	there(map[string]int{"ttl/3600": 404, "date/near": 404, "ttl/10800": 200, "ttl/864000": 200, "date/far": 200})
	load.verify(t, c)
	c.Close()
	if strings.Contains(s.Stderr.String(), "level=ERROR") {
		t.Errorf("log:\n%s", s.Stderr)
	}
	must(t, s.Stop(20*time.Second))
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	load.verify(t, c)
	c.Close()
}
