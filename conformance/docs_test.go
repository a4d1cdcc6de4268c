package conformance_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/dstest/docs"
	"durablestreams/internal/dstest/node"
	"durablestreams/internal/dstest/python"
)

// TestSubscriptionsGuide does what docs/subscriptions.md says: its commands, its
// receivers and its worker, on ports that are free.
func TestSubscriptionsGuide(t *testing.T) {
	t.Setenv("DS_ADMIN_LISTEN", "off")
	dir := t.TempDir()
	if err := os.Symlink(buildServer(t, false), filepath.Join(dir, "ds")); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("8642", freePort(t), "9001", freePort(t), "9002", freePort(t), "node receiver.ts", "node receiver.mjs", "node worker.ts", "node worker.mjs")
	blocks, programs := savePrograms(t, dir, docs.Read(t, "../docs/subscriptions.md", "ts", "go", "python"), replace)
	if programs != 4 {
		t.Errorf("%d programs, want 4", programs)
	}
	bin, noPython := python.Install(t, "python")
	if noPython != "" {
		t.Logf("%s: the worker in Python is not run", noPython) // TestGuides says that it skips something
		blocks = withoutPython(blocks)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	docs.Paste(t, dir, blocks, replace)
}

// savePrograms writes the blocks that are programs into dir, each under the name that
// its first line has, and takes the types away from those in TypeScript: name.ts becomes
// name.mjs. It gives the other blocks.
func savePrograms(t *testing.T, dir string, blocks []docs.Block, replace *strings.Replacer) (others []docs.Block, programs int) {
	t.Helper()
	strip := []string{"strip-types.mjs"}
	extension := map[string]string{"ts": ".ts", "go": ".go", "python": ".py", "html": ".html"}
	for _, b := range blocks {
		if b.Lang == "sh" || b.Lang == "text" {
			others = append(others, b)
			continue
		}
		programs++
		m := programName.FindStringSubmatch(b.Text)
		if m == nil || filepath.Ext(m[1]) != extension[b.Lang] {
			t.Fatalf("a program that does not say its name: %.60q", b.Text)
		}
		file := filepath.Join(dir, m[1])
		if err := os.WriteFile(file, []byte(replace.Replace(b.Text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if b.Lang == "ts" {
			strip = append(strip, file)
		}
	}
	if len(strip) > 1 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		node.Install(t, npmDir)
		if out, err := node.Run(ctx, npmDir, nil, "node", strip...); err != nil {
			t.Fatalf("take the types away: %v\n%s", err, out)
		}
	}
	return others, programs
}

// programName is the comment that a program begins with.
var programName = regexp.MustCompile(`^(?://|#|<!--) (\S+\.\w+)( -->)?\n`)

// guides are the guides and how many programs each has.
var guides = map[string]int{
	"quick-start": 3,
	"streams":     3,
	"writing":     3,
	"reading":     3,
	"live":        3,
	"forking":     3,
	"browsers":    1,
	"deploying":   0,
	"moving":      0,
}

// TestGuides does what the guides say, all with one server: their commands with curl and
// ds, and their programs in TypeScript, Go and Python.
func TestGuides(t *testing.T) {
	names, err := filepath.Glob("../docs/guides/*.md")
	if err != nil || len(names) != len(guides) {
		t.Fatalf("%d guides, want %d: %v", len(names), len(guides), err)
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GONOSUMDB", "*") // what the checkout has verified need not be looked up again
	t.Setenv("GOWORK", "off")
	s := startServer(t, buildServer(t, false), "--data-dir", filepath.Join(t.TempDir(), "data"), "--long-poll-timeout", "2s", "--admin-listen", "off")
	t.Setenv("DS_URL", s.Streams)
	node.Install(t, npmDir)
	bin, noPython := python.Install(t, "python")
	t.Setenv("PATH", strings.Join([]string{filepath.Dir(buildServer(t, false)), bin, os.Getenv("PATH")}, string(filepath.ListSeparator)))
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		t.Run(name, func(t *testing.T) {
			if name != "deploying" { // which says where
				t.Setenv("DS_ADMIN_LISTEN", "off")
			}
			dir := workplace(t, name != "quick-start")
			blocks := docs.Read(t, file, "ts", "go", "python", "html")
			host := s.streams.Host
			if slices.ContainsFunc(blocks, func(b docs.Block) bool { return b.Lang == "sh" && strings.Contains(b.Text, "ds serve --") }) {
				host = "127.0.0.1:" + freePort(t) // it starts servers of its own
			}
			pairs := []string{"--listen 127.0.0.1:4437", "--listen 127.0.0.1:4437", "127.0.0.1:8642", host, "127.0.0.1:8643", "127.0.0.1:" + freePort(t)}
			if name == "moving" {
				old := node.Reference(t, "reference")
				pairs = append(pairs, "http://127.0.0.1:4437/v1/stream", old)
			}
			replace := strings.NewReplacer(pairs...)
			blocks, count := savePrograms(t, dir, blocks, replace)
			if want, known := guides[name]; !known || count != want {
				t.Errorf("%d programs, want %d", count, want)
			}
			for i := range blocks {
				blocks[i].Text = here(t, blocks[i].Text)
			}
			if noPython != "" {
				blocks = withoutPython(blocks)
			}
			docs.Paste(t, dir, blocks, replace)
		})
	}
	if noPython != "" {
		t.Run("Python", func(t *testing.T) { t.Skipf("%s: the guides' programs in Python were not run", noPython) })
	}
}

// TestGuidesTypes lets the TypeScript compiler look at the programs of all guides: they are
// run with their types taken away.
func TestGuidesTypes(t *testing.T) {
	names, err := filepath.Glob("../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	node.Install(t, npmDir)
	dir := workplace(t, false)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("package.json", `{"type":"module"}`)
	compile := []string{filepath.Join("node_modules", "typescript", "bin", "tsc"), "--noEmit", "--strict", "--noUnusedLocals", "--target", "es2022", "--module", "nodenext",
		"--moduleDetection", "force", "--types", "node", "--skipLibCheck"}
	flags := len(compile)
	for _, file := range append(names, "../docs/subscriptions.md") {
		for i, b := range docs.Read(t, file, "ts", "go", "python", "html") {
			if b.Lang == "ts" {
				name := fmt.Sprintf("%s-%d.ts", strings.TrimSuffix(filepath.Base(file), ".md"), i)
				write(name, b.Text)
				compile = append(compile, name)
			}
		}
	}
	if programs := len(compile) - flags; programs < 8 {
		t.Errorf("only %d programs", programs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := node.Run(ctx, dir, nil, "node", compile...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBrowserGuide opens the page of the guide to browsers in a headless Chromium, from
// another origin, with signed URLs that are good for a second and answers that end
// all the time.
func TestBrowserGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a browser")
	}
	var page string
	for _, b := range docs.Read(t, "../docs/guides/browsers.md", "html") {
		if b.Lang == "html" {
			page = b.Text
		}
	}
	dir := t.TempDir()
	access, data := filepath.Join(dir, "access"), filepath.Join(dir, "data")
	ds := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), buildServer(t, false), args...).Output()
		if err != nil {
			t.Fatalf("ds %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	shop := ds("access", "key", access, "shop", "all:orders/**")
	var s *server
	asked := make(chan struct{}, 1000)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/order-url":
			asked <- struct{}{}
			fmt.Fprint(w, s.Streams+"/orders/7?"+ds("access", "url", data, "orders/7", "--for", "1s"))
		case "/follow.html":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, page)
		default:
			w.WriteHeader(http.StatusNoContent) // the browser wants an icon
		}
	}))
	defer pages.Close()
	s = startServer(t, buildServer(t, false), "--data-dir", data, "--access-file", access, "--cors-origins", pages.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	env := []string{"PAGE=" + pages.URL + "/follow.html", "STREAM=" + s.Streams + "/orders/7", "KEY=" + shop}
	const script = "browserguide.mjs"
	if out, err := node.Run(ctx, node.Beside(t, "../internal/web/browser", script), env, "node", script); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(asked) < 3 {
		t.Errorf("the page has asked for %d URLs: none of them has expired", len(asked))
	}
}

// workplace is a folder as the quick start describes it: a checkout beside it, the
// npm packages and, if wanted, the Go module inside.
func workplace(t *testing.T, module bool) (dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "try")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"../ds": root, "node_modules": filepath.Join(root, "conformance", npmDir, "node_modules")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if module {
		text := "module example.org/try\n\ngo 1.26\n\nrequire durablestreams v0.0.0\n\nreplace durablestreams => ../ds\n"
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var (
	runTypeScript = regexp.MustCompile(`(?m)\bnode (\S+)\.ts\b`)
	installed     = regexp.MustCompile(`(?m)^(?:npm install|pip install) (\S+?)(?:==|@)([\d.]+)$`)
)

// here gives commands as they are run here: without what the test has done already, the
// server's start and the installation of the packages that the guides name.
func here(t *testing.T, commands string) string {
	t.Helper()
	if commands == "make build\n./ds serve\n" || commands == "python3 -m venv venv\n. venv/bin/activate\npip install durable-streams==0.1.0\n" {
		checkPin(t, commands)
		return ":\n"
	}
	if strings.HasPrefix(commands, "npm install ") {
		checkPin(t, commands)
		return ":\n"
	}
	return runTypeScript.ReplaceAllString(commands, "node $1.mjs")
}

// checkPin wants the version that a guide installs to be the one that is tested.
func checkPin(t *testing.T, commands string) {
	t.Helper()
	for _, m := range installed.FindAllStringSubmatch(commands, -1) {
		file, want := "python/requirements.txt", m[1]+"=="+m[2]+" "
		if strings.HasPrefix(m[0], "npm") {
			file, want = npmDir+"/package.json", fmt.Sprintf("%q: %q", m[1], m[2])
		}
		pins, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(pins), want) {
			t.Errorf("a guide says %q, and %s has another version", m[0], file)
		}
	}
}

// needsPython finds the commands that run a program in Python, or show what it wrote.
var needsPython = regexp.MustCompile(`\w\.py\b|\bpy\.(?:txt|log)\b`)

// withoutPython leaves out what needs Python, and the output that is then another.
func withoutPython(blocks []docs.Block) (rest []docs.Block) {
	needs := func(line string) bool { return needsPython.MatchString(line) }
	for i, b := range blocks {
		lines := strings.SplitAfter(b.Text, "\n")
		if b.Lang == "sh" {
			b.Text = strings.Join(slices.DeleteFunc(lines, needs), "") + ":\n"
		} else if slices.ContainsFunc(strings.Split(blocks[i-1].Text, "\n"), needs) {
			b.Text = "…\n"
		}
		rest = append(rest, b)
	}
	return rest
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}
