// Package web is the page that shows streams in a browser: files in the binary, and a
// handler that serves them. The page itself asks the server's own APIs for everything,
// as its visitor; nothing is decided here.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Config tells the page where things are. Its fields become config.json.
type Config struct {
	Streams  string `json:"streams"`  // URL of all streams, with the slash at the end; relative to the page, like the next
	API      string `json:"api"`      // URL of the administration API, without one
	ReadOnly bool   `json:"readOnly"` // show nothing that changes something, and no subscriptions
	Version  string `json:"version"`  // of the server; "" is not shown
}

//go:embed assets
var assets embed.FS

// policy lets the page load nothing but its own files, and nobody put it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// kinds are the Content-Types; those of the machine may be others.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
}

// asset is one file as it is served.
type asset struct {
	content []byte
	kind    string // its Content-Type
	tag     string // its ETag
}

// Handler serves the page and its files; prefix, with the slash at the end, is where. It
// may be used by any number of goroutines.
func Handler(prefix string, config Config) (http.Handler, error) {
	files := map[string]asset{}
	add := func(name string, content []byte) {
		sum := sha256.Sum256(content)
		files[name] = asset{content, kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	}
	told, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write the page's configuration: %w", err)
	}
	add("config.json", told)
	all, err := fs.Glob(assets, "assets/*")
	if err != nil {
		return nil, fmt.Errorf("list the page's files: %w", err)
	}
	for _, name := range all {
		content, err := assets.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the page's files: %w", err)
		}
		add(path.Base(name), content)
	}
	files[""] = files["index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, prefix, files) }), nil
}

func serve(w http.ResponseWriter, r *http.Request, prefix string, files map[string]asset) {
	name, below := strings.CutPrefix(r.URL.Path, prefix)
	file, known := files[name]
	if !below || !known {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("ETag", file.tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.content))
}
