package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processUsage is the CPU time of this process so far.
func processUsage() usage { return resourceUsage(syscall.RUSAGE_SELF) }

func resourceUsage(who int) usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		return usage{} // cannot fail for these arguments; zero shows as unknown
	}
	return usage{time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())}
}

// snapshot is what a process had used at one moment.
type snapshot struct {
	cpu usage
	rss int64 // bytes
}

// clockTick is the unit of /proc/PID/stat: USER_HZ is 100 on every system that Go
// runs on.
const clockTick = 10 * time.Millisecond

var errStat = errors.New("unexpected content")

// observe reads what a process has used. Only systems with /proc can.
func observe(pid int) (snapshot, error) {
	var s snapshot
	name := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(name)
	if err != nil {
		return s, fmt.Errorf("observe process %d: %w", pid, err)
	}
	// The second field is the command's name in parentheses and may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return s, fmt.Errorf("read %s: %w", name, errStat)
	}
	user, errUser := strconv.ParseInt(string(fields[11]), 10, 64)
	system, errSystem := strconv.ParseInt(string(fields[12]), 10, 64)
	if err := errors.Join(errUser, errSystem); err != nil {
		return s, fmt.Errorf("read %s: %w", name, err)
	}
	s.cpu = usage{time.Duration(user) * clockTick, time.Duration(system) * clockTick}
	s.rss, err = residentMemory(pid)
	return s, err
}

// residentMemory reads VmRSS, which the kernel counts exactly in this file.
func residentMemory(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("observe process %d: %w", pid, err)
	}
	for line := range bytes.Lines(status) {
		if value, found := bytes.CutPrefix(line, []byte("VmRSS:")); found {
			fields := bytes.Fields(value)
			if len(fields) == 2 {
				kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
				return kib << 10, err
			}
		}
	}
	return 0, fmt.Errorf("read %s: %w", name, errStat)
}
