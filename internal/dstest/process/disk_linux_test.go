package process_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"durablestreams/internal/dstest/process"
)

// smallDisk gives an empty file system of its own. It takes the right to mount
// one; where that is missing, package store tests a full disk in memory.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("a tmpfs cannot be mounted here (%v; it takes root): the full disk is not tried with a real one", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// TestDiskFull is B94: a full disk refuses changes and nothing else, and service
// resumes by itself.
func TestDiskFull(t *testing.T) {
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(smallDisk(t, "8m"), "data")}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	text := []string{"Content-Type", "text/plain"}
	must := func(status int, a *process.Answer) {
		t.Helper()
		if a.Status != status {
			t.Fatalf("%.300v, want %d\n%s", a, status, s.Stderr)
		}
	}
	must(http.StatusCreated, c.Do(http.MethodPut, "kept", "", text...))
	must(http.StatusCreated, c.Do(http.MethodPut, "ballast", strings.Repeat("b", 1500<<10), text...))

	var kept strings.Builder
	// While the archive makes room in the journal there may be refusals too; the
	// disk is full when they do not end.
	fill := func() (refused *process.Answer) {
		for since := time.Now(); time.Since(since) < 3*time.Second; {
			body := fmt.Sprintf("%04d%s\n", kept.Len()>>16, strings.Repeat("x", 64<<10))
			if refused = c.Do(http.MethodPost, "kept", body, text...); refused.Status != http.StatusNoContent {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			kept.WriteString(body)
			if since = time.Now(); kept.Len() > 8<<20 {
				t.Fatal("the disk never gets full")
			}
		}
		return refused
	}
	check := func() {
		t.Helper()
		if a := c.ReadAll("kept", "-1"); a.Status != http.StatusOK || a.Body != kept.String() {
			t.Fatalf("the stream holds %s (%d, %v), want %s\n%s", brief(a.Body), a.Status, a.Err, brief(kept.String()), s.Stderr)
		}
	}
	refused := fill()
	if refused.Status != http.StatusInsufficientStorage && refused.Status != http.StatusServiceUnavailable {
		t.Fatalf("an append to the full disk: %v\n%s", refused, s.Stderr)
	}
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	t.Logf("full after %d KiB", kept.Len()>>10)
	if kept.Len() < 1<<20 {
		t.Errorf("of 8 MB the first %d bytes fill the disk", kept.Len())
	}
	check()
	must(http.StatusNoContent, c.Do(http.MethodDelete, "ballast", ""))
	again := "after the disk was full\n"
	resumes(t, s, func() bool { return c.Do(http.MethodPost, "kept", again, text...).Status == http.StatusNoContent })
	kept.WriteString(again)
	check()

	fill()
	s.Kill()
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	check()
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatalf("stop: %v\n%s", err, s.Stderr)
	}
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	check()
	must(http.StatusNotFound, c.Do(http.MethodGet, "ballast", ""))
}

// resumes waits until something works again.
func resumes(t *testing.T, s *process.Server, works func() bool) {
	t.Helper()
	for begin := time.Now(); !works(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 15*time.Second {
			t.Fatalf("no service 15 s after there is space again\n%s", s.Stderr)
		}
	}
}

// TestShortenedFile is B93: what cannot be read is never passed off as the end.
func TestShortenedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", dir}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	text := []string{"Content-Type", "text/plain"}
	var content strings.Builder
	if a := c.Do(http.MethodPut, "a", "", text...); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	for i := range 60 {
		body := strings.Repeat(fmt.Sprintf("%09d\n", i), 10<<10)
		if a := c.Do(http.MethodPost, "a", body, text...); a.Status != http.StatusNoContent {
			t.Fatal(a)
		}
		content.WriteString(body)
	}
	if err := s.Stop(20 * time.Second); err != nil { // now everything is in the archive
		t.Fatal(err)
	}
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	if a := c.Do(http.MethodPut, "b", "fine", text...); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	shorten(t, filepath.Join(dir, "archive"))

	whole := content.String()
	offset, read := "-1", ""
	for {
		a := c.Do(http.MethodGet, "a?offset="+offset, "")
		if a.Err != nil || a.Status >= 500 {
			t.Logf("after %d of %d bytes: status %d, %v", len(read), len(whole), a.Status, a.Err)
			break
		}
		read += a.Body
		if a.Status != http.StatusOK || !strings.HasPrefix(whole, read) {
			t.Fatalf("status %d, %s", a.Status, brief(read))
		}
		if a.Header.Get("Stream-Up-To-Date") == "true" {
			t.Fatalf("the read ends as if all were well, with %d of %d bytes", len(read), len(whole))
		}
		offset = a.Tail()
	}
	for range 2 {
		if a := c.Do(http.MethodGet, "b", ""); a.Status != http.StatusOK || a.Body != "fine" {
			t.Errorf("another stream: %v\n%s", a, s.Stderr)
		}
		if a := c.Do(http.MethodPost, "b", "", "Stream-Closed", "true"); a.Status != http.StatusNoContent {
			t.Errorf("close another stream: %v\n%s", a, s.Stderr)
		}
	}
	if !strings.Contains(s.Stderr.String(), "level=ERROR") {
		t.Errorf("the log does not tell:\n%s", s.Stderr)
	}
}

// fillUp takes every byte of a file system that a program without special rights
// can get, and gives them back with the file.
func fillUp(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "somebody-else")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// Another program fills the disk, and keeps it full: the server goes on to serve
// reads, takes deletions, ends and starts, and resumes service when there is space.
func TestOthersFillTheDisk(t *testing.T) {
	disk := smallDisk(t, "24m")
	command := process.Command{Binary: process.Build(t), Args: []string{"--data-dir", filepath.Join(disk, "data")}}
	s := process.Start(t, command)
	c := process.NewClient(s.Streams)
	text := []string{"Content-Type", "text/plain"}
	var content strings.Builder
	must := func(status int, a *process.Answer) {
		t.Helper()
		if a.Status != status {
			t.Fatalf("%.300v, want %d\n%s", a, status, s.Stderr)
		}
	}
	appendSome := func(n int) {
		t.Helper()
		for i := range n {
			body := fmt.Sprintf("%06d%s\n", content.Len()+i, strings.Repeat("x", 8<<10))
			must(http.StatusNoContent, c.Do(http.MethodPost, "kept", body, text...))
			content.WriteString(body)
		}
	}
	must(http.StatusCreated, c.Do(http.MethodPut, "kept", "", text...))
	for round := range 3 {
		gone := fmt.Sprint("gone", round)
		must(http.StatusCreated, c.Do(http.MethodPut, gone, strings.Repeat("g", 300<<10), text...))
		appendSome(40)
		free := fillUp(t, disk)
		refused := false
		for begin := time.Now(); time.Since(begin) < 2500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
			body := fmt.Sprintf("full %d\n", content.Len())
			switch a := c.Do(http.MethodPost, "kept", body, text...); a.Status {
			case http.StatusNoContent:
				content.WriteString(body)
			case http.StatusInsufficientStorage, http.StatusServiceUnavailable:
				refused = true
			default:
				t.Fatalf("round %d: an append to the full disk: %v\n%s", round, a, s.Stderr)
			}
			if a := c.ReadAll("kept", "-1"); a.Status != http.StatusOK || a.Body != content.String() {
				t.Fatalf("round %d: the stream holds %s (%d, %v), want %s\n%s", round, brief(a.Body), a.Status, a.Err, brief(content.String()), s.Stderr)
			}
		}
		if !refused {
			t.Errorf("round %d: the full disk takes everything", round)
		}
		must(http.StatusNoContent, c.Do(http.MethodDelete, gone, ""))
		switch round {
		case 1:
			s.Kill()
		case 2:
			if err := s.Stop(30 * time.Second); err != nil {
				t.Fatalf("stop on a full disk: %v\n%s", err, s.Stderr)
			}
		}
		if round > 0 {
			s = process.Start(t, command)
			c = process.NewClient(s.Streams)
			if a := c.ReadAll("kept", "-1"); a.Status != http.StatusOK || a.Body != content.String() {
				t.Fatalf("started on the full disk: %s (%d, %v)\n%s", brief(a.Body), a.Status, a.Err, s.Stderr)
			}
			must(http.StatusNotFound, c.Do(http.MethodGet, gone, ""))
		}
		free()
		again := fmt.Sprintf("again %d\n", round)
		resumes(t, s, func() bool { return c.Do(http.MethodPost, "kept", again, text...).Status == http.StatusNoContent })
		content.WriteString(again)
		appendSome(5)
	}
	if err := s.Stop(20 * time.Second); err != nil {
		t.Fatalf("stop: %v\n%s", err, s.Stderr)
	}
	s = process.Start(t, command)
	c = process.NewClient(s.Streams)
	if a := c.ReadAll("kept", "-1"); a.Body != content.String() {
		t.Fatalf("at the end: %s (%d, %v)", brief(a.Body), a.Status, a.Err)
	}
}
