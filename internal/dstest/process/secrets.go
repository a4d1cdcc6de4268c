package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Everything that a server of a test run writes to stderr is searched for secrets: for
// what has the form of one, for the keys in its data directory, and for the words that
// tests have named with [Secret]. A finding fails the run, see [Main].

// secretForms are API keys, JSON Web Tokens, signatures of URLs and whatever follows a
// scheme of authentication.
var secretForms = []*regexp.Regexp{
	regexp.MustCompile(`dsk_[\w-]{16,}`),
	regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{8,}`),
	regexp.MustCompile(`signature=[\w.%-]+`),
	regexp.MustCompile(`(?i)\b(?:bearer|basic) +[\w.~+/=-]{8,}`),
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`),
}

// leaks are the findings of a run, and the words that tests have named.
var leaks = struct {
	sync.Mutex
	words []string
	found []string
}{}

// Secret names words that no server may log from now on. A word of less than 8 bytes
// could be there by chance and is not taken.
func Secret(words ...string) {
	leaks.Lock()
	defer leaks.Unlock()
	for _, w := range words {
		if len(w) >= 8 {
			leaks.words = append(leaks.words, w)
		}
	}
}

// searched is how much of what one server logs is searched, from its start on, in bytes.
const searched = 8 << 20

// record keeps what is to be searched.
type record struct {
	mu  sync.Mutex
	buf []byte
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p[:min(len(p), searched-len(r.buf))]...)
	return len(p), nil
}

// search looks through the log of a server that has ended.
func (r *record) search(args []string, dir string) {
	r.mu.Lock()
	text := string(r.buf)
	r.mu.Unlock()
	words := keysIn(args, dir)
	leaks.Lock()
	defer leaks.Unlock()
	for line, word := range secretsIn(text, append(words, leaks.words...)) {
		leaks.found = append(leaks.found, fmt.Sprintf("ds %s has logged the secret %.12q…: %s", strings.Join(args, " "), word, line))
	}
}

// secretsIn gives the lines of a log that have secrets, each with one of them.
func secretsIn(log string, words []string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		for _, form := range secretForms {
			if s := form.FindString(line); s != "" {
				found[line] = s
			}
		}
		for _, word := range words {
			if strings.Contains(line, word) {
				found[line] = word
			}
		}
	}
	return found
}

// keysIn gives the secrets in the key files of a data directory, as they stand there.
// Their sums, and times, are none.
func keysIn(args []string, dir string) (words []string) {
	data := ""
	for i, arg := range args {
		if arg == "--data-dir" && i+1 < len(args) {
			data = args[i+1]
		}
		if v, ok := strings.CutPrefix(arg, "--data-dir="); ok {
			data = v
		}
	}
	if data == "" {
		return nil
	}
	if !filepath.IsAbs(data) {
		data = filepath.Join(dir, data)
	}
	for _, name := range []string{"webhook", "urls"} {
		text, err := os.ReadFile(filepath.Join(data, "keys", name))
		if err != nil {
			continue // there is none
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "sum ") {
				continue
			}
			for _, word := range strings.Fields(line) {
				if len(word) >= 32 {
					words = append(words, word)
				}
			}
		}
	}
	return words
}

// reportLeaks writes down what was found, and reports whether there was nothing.
func reportLeaks(w io.Writer) bool {
	leaks.Lock()
	defer leaks.Unlock()
	for _, f := range leaks.found {
		fmt.Fprintln(w, f)
	}
	if len(leaks.found) > 0 {
		fmt.Fprintf(w, "FAIL: %d secrets in the logs of servers\n", len(leaks.found))
	}
	return len(leaks.found) == 0
}
