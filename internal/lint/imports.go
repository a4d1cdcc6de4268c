package lint

import (
	"slices"
	"strings"
)

// layer says what one package may import beyond the standard library, and why no
// more than that.
type layer struct {
	inside  []string // packages of this module
	outside []string // other modules, by prefix
	why     string
}

const (
	pebble     = "github.com/cockroachdb/pebble/v2"
	disk       = pebble + "/vfs"
	goJSON     = "github.com/go-json-experiment/json"
	prometheus = "github.com/prometheus/client_golang/prometheus"
	goJOSE     = "github.com/go-jose/go-jose/v4"
	kong       = "github.com/alecthomas/kong"
	toml       = "github.com/pelletier/go-toml/v2"
)

// layers is the import table of the design: stream is at the bottom, cmd on top,
// and a package that is not listed has to be given its row here.
var layers = map[string]layer{
	"internal/format": {
		why: "all that is on the disk has a version, so it depends on nobody"},
	"stream": {
		inside: []string{"internal/format"},
		why:    "the rules about a stream's state are pure: no bytes on a wire, no disk, no HTTP"},
	"internal/due": {
		why: "it orders entries by time and knows nothing of whose they are"},
	"internal/glob": {
		inside: []string{"stream"},
		why:    "it matches stream paths and knows nothing else"},
	"internal/bytesize": {
		why: "it reads and writes numbers"},
	"internal/tenant": {
		inside: []string{"stream", "store", "internal/bytesize"},
		why:    "it counts what tenants use for whoever asks; it knows no transport, and of the engine only what that asks of a ledger"},
	"internal/wire": {
		inside: []string{"stream"}, outside: []string{goJSON},
		why: "it turns bytes into values for server and client alike, so it depends on neither"},
	"internal/protocol": {
		inside: []string{"stream", "internal/wire", "internal/glob", "internal/metric"},
		why:    "the core speaks to storage through the few methods it declares itself; the root joins them. It never imports store, and no transport"},
	"httpapi": {
		inside: []string{"stream", "internal/wire", "internal/protocol"},
		why:    "an adapter carries requests to the core; storage is none of its business"},
	"internal/fastpath": {
		inside:  []string{"stream", "internal/wire", "internal/protocol", "internal/due", "httpapi"},
		outside: []string{"golang.org/x/sys"},
		why:     "an adapter carries requests to the core; what it does not take goes to net/http"},
	"internal/journal": {
		inside: []string{"internal/format"}, outside: []string{disk},
		why: "the journal knows bytes, not streams"},
	"internal/memfs": {
		outside: []string{disk},
		why:     "it counts the bytes of files and knows nothing of what they hold"},
	"internal/mirror": {
		inside: []string{"internal/format"}, outside: []string{disk},
		why: "a second copy knows bytes, neither streams nor whose copy it is"},
	"internal/salvage": {
		outside: []string{pebble},
		why:     "it reads Pebble's files when Pebble does not, and knows nothing of what they hold"},
	"internal/archive": {
		inside: []string{"stream", "internal/format", "internal/mirror", "internal/salvage"}, outside: []string{pebble},
		why: "the archive keeps rows and chunks for the store and knows nobody above"},
	"store": {
		inside: []string{"stream", "internal/format", "internal/journal", "internal/archive", "internal/due", "internal/metric"}, outside: []string{disk},
		why: "the engine sits on journal and archive; the protocol is above it and must stay replaceable"},
	"auth": {
		inside: []string{"stream", "internal/format", "internal/wire", "internal/glob"}, outside: []string{goJOSE},
		why: "who may do what is decided from a request's values and an issuer's keys alone; streams and transports are none of its business"},
	"subscription": {
		inside: []string{"stream", "internal/format", "internal/due", "internal/glob", "internal/metric"},
		why:    "durable cursors say in interfaces what they need of engine, wake streams and webhooks; the root joins them"},
	"internal/control": {
		inside: []string{"stream", "subscription", "internal/protocol"},
		why:    "it turns requests into calls of the subscription manager; what they do is decided there, and no transport is known here"},
	"internal/webhook": {
		inside: []string{"internal/format"}, outside: []string{disk},
		why: "it signs and delivers bytes, and keeps its keys in a file of the data directory; who is woken when, and with what, is decided above"},
	"client": {
		inside: []string{"stream", "internal/wire"},
		why:    "an application that imports the client must not get the server with it"},
	"internal/config": {
		outside: []string{toml},
		why:     "settings are names and values; what they mean is up to those who take them"},
	"internal/inspect": {
		inside: []string{"stream", "store", "subscription", "internal/journal", "internal/archive"}, outside: []string{pebble},
		why: "it reads what lies on disk; a running server is not needed for that"},
	"internal/metric": {
		why: "counting is for all, so it depends on nobody"},
	"internal/requestlog": {
		inside: []string{"internal/protocol"},
		why:    "it writes down what the core tells of answers; which those are is decided there"},
	"internal/trace": {
		inside: []string{"internal/protocol"}, outside: []string{"go.opentelemetry.io/otel"},
		why: "it turns what the core tells of answers into spans; nobody else has to know OpenTelemetry"},
	"internal/version": {
		why: "it reads what the toolchain has stamped"},
	"internal/admin": {
		why: "what operators see is handed to it as functions and handlers; it knows nothing of streams"},
	"internal/manage": {
		inside: []string{"stream", "store", "subscription", "internal/tenant"},
		why:    "it shows operators what the server knows; no transport and no protocol is known here"},
	"internal/backup": {
		inside: []string{"stream", "store"}, outside: []string{disk},
		why: "it moves files of pictures and says what went wrong in the kinds that there are; what the files mean the store knows"},
	"internal/web": {
		why: "pages are files and a handler"},
	"internal/bench": {
		inside: []string{"stream", "internal/wire", "client"},
		why:    "a load generator sees the server as users see it"},
	".": {
		inside: []string{"stream", "store", "auth", "subscription", "httpapi", "internal/wire", "internal/protocol", "internal/control", "internal/fastpath",
			"internal/journal", "internal/archive", "internal/webhook", "internal/glob", "internal/inspect", "internal/admin", "internal/manage", "internal/backup", "internal/metric", "internal/memfs", "internal/tenant", "internal/web", "internal/version", "internal/requestlog", "internal/trace"},
		outside: []string{disk, prometheus},
		why:     "the root is wiring: it is imported by the command line and imports no part of it"},
	"internal/cli": {
		inside:  []string{".", "stream", "store", "client", "auth", "internal/wire", "internal/bytesize", "internal/config", "internal/inspect", "internal/backup", "internal/manage", "internal/bench", "internal/version"},
		outside: []string{kong, disk, "golang.org/x/sys"},
		why:     "commands use the server as a value and the tools around it; as clients they tell content types apart"},
	"examples/chat": {
		inside: []string{".", "client", "stream"},
		why:    "an example uses what everybody may use: the server, the client and the kinds of their errors"},
	"cmd/ds": {
		inside: []string{"internal/cli"},
		why:    "main makes a context, calls cli.Run and exits"},
}

// Imports checks one file against the table. Test files may import any package,
// so that a test can put together what it needs.
func Imports(f *File) []Finding {
	dir := f.Dir()
	if f.IsTest() || within(dir, harness...) {
		return nil
	}
	rule, known := layers[dir]
	if !known {
		return []Finding{f.at(f.AST.Package, "package %s has no row in the import table; give it one in internal/lint/imports.go: what it may import, and why no more", dir)}
	}
	var found []Finding
	for _, spec := range f.AST.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		inside, ours := localPackage(path)
		switch {
		case ours && inside == dir || ours && slices.Contains(rule.inside, inside):
		case !ours && (standard(path) || slices.ContainsFunc(rule.outside, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })):
		default:
			found = append(found, f.at(spec.Pos(), "%s may not import %s: %s. Move the code down to where both may see it, or take what is needed as an argument", dir, path, rule.why))
		}
	}
	return found
}

// localPackage gives a package's folder if it belongs to this module.
func localPackage(path string) (dir string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// standard tells whether a path is of the standard library: its first element
// has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != module
}

// Harnesses keeps "testing" and the test harnesses out of programs: no file of
// production code may import them, so cmd/ds cannot reach them.
func Harnesses(f *File) []Finding {
	if f.IsTest() {
		return nil
	}
	var found []Finding
	inHarness := within(f.Dir(), harness...)
	for _, spec := range f.AST.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if path == "testing" || strings.HasPrefix(path, "testing/") {
			if !within(f.Dir(), "conformance", "internal/dstest", "streamtest") {
				found = append(found, f.at(spec.Pos(), "only tests, conformance, streamtest and internal/dstest import %s: move this code to a _test.go file or to internal/dstest", path))
			}
			continue
		}
		if dir, ours := localPackage(path); ours && within(dir, harness...) && !inHarness {
			found = append(found, f.at(spec.Pos(), "%s is a test harness and would end up in the ds binary: import it from a _test.go file only", path))
		}
	}
	return found
}
