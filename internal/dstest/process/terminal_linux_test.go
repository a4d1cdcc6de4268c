package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"durablestreams/internal/dstest/process"
)

// A server whose terminal goes ends with it, and cleanly, though a hang-up otherwise
// asks for a reload.
func TestTerminalGone(t *testing.T) {
	hearHangups(t)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := exec.Command(process.Build(t), "serve", "--in-memory", "--listen", "127.0.0.1:0", "--admin-listen", "off")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await := func(want string) {
		t.Helper()
		var said []byte
		buf := make([]byte, 1000)
		for !bytes.Contains(said, []byte(want)) {
			n, err := terminal.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, said)
			}
			said = append(said, buf[:n]...)
		}
	}
	await("durability")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("settings reloaded")
	tty.Close()
	terminal.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("it goes on without its terminal")
	}
}
