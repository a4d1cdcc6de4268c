package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"durablestreams/internal/inspect"
)

// isTerminal tells whether a person looks at what is written, or writes what is read.
func isTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.Writer
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// style is an escape sequence where colour is wanted: on a terminal that knows it,
// unless NO_COLOR is set.
func (e *Env) style(sequence string) string {
	noColor, _ := e.LookupEnv("NO_COLOR")
	term, _ := e.LookupEnv("TERM")
	if noColor != "" || term == "dumb" || !isTerminal(e.Stdout) {
		return ""
	}
	return sequence
}

// harmless is a text without what could drive a terminal: what comes from a
// stream or a server is nobody's but theirs. Line breaks and tabs stay.
func harmless(text string) string {
	var b strings.Builder
	for text != "" {
		end := strings.IndexAny(text, "\n\t")
		if end < 0 {
			return b.String() + inspect.Printable(text)
		}
		b.WriteString(inspect.Printable(text[:end]))
		b.WriteByte(text[end])
		text = text[end+1:]
	}
	return b.String()
}

// progress shows on a terminal how far a long work is. A nil one shows nothing.
type progress struct {
	w     io.Writer
	what  string
	began time.Time
	shown time.Time
	done  int64
}

// progressPause is the time between two updates.
const progressPause = 500 * time.Millisecond

// progress starts a work's display on stderr, if a person looks there and not at the
// result.
func (e *Env) progress(what string) *progress {
	if !isTerminal(e.Stderr) || isTerminal(e.Stdout) {
		return nil
	}
	return newProgress(e.Stderr, what)
}

func newProgress(w io.Writer, what string) *progress {
	now := time.Now()
	return &progress{w: w, what: what, began: now, shown: now}
}

// add counts bytes that are done.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.done += int64(n)
	if now := time.Now(); now.Sub(p.shown) >= progressPause {
		p.shown = now
		rate := float64(p.done) / now.Sub(p.began).Seconds()
		fmt.Fprintf(p.w, "\r\x1b[K%s %s, %s/s", p.what, quantity(float64(p.done)), quantity(rate))
	}
}

// end takes the display away.
func (p *progress) end() {
	if p != nil && p.shown != p.began {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// quantity is a number of bytes for people.
func quantity(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if n < 1024 {
			return fmt.Sprintf("%.4g %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.4g GiB", n)
}
