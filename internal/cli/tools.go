package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams"
	"durablestreams/internal/inspect"
	"durablestreams/internal/version"
	"durablestreams/store"
)

// checkCommand is "ds check".
type checkCommand struct {
	Dir    string `arg:"" help:"Data directory. No server may be using it."`
	Repair bool   `help:"First take what is damaged out, so that a server starts again: files of the archive, and the journal from its first damage on. It is set aside in archive.damaged-* and *.damaged; what cannot be read of it is no longer served."`
	JSON   bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (checkCommand) Help() string {
	return `Reads the whole directory and compares journal, archive and index with each other. Without --repair
nothing is changed. The exit code is 0 if all is sound, 1 if something is wrong.

Examples:

    ds check ds-data
    ds check ds-data --repair --json`
}

// checkReport is what --json gives.
type checkReport struct {
	Directory string `json:"directory"`
	Sound     bool   `json:"sound"`
	*durablestreams.Report
	Repaired *repairReport `json:"repaired,omitempty"`
}

// repairReport is what --repair has done.
type repairReport struct {
	Wrong []durablestreams.Problem `json:"wrong,omitempty"`
	Aside string                   `json:"aside,omitempty"`
	Lost  []lostReport             `json:"lost,omitempty"`
	Cuts  []cutReport              `json:"cuts,omitempty"`
}

// lostReport is data that --repair could not find again.
type lostReport struct {
	Stream uint64 `json:"stream"`
	Path   string `json:"path"`
	From   uint64 `json:"from"`
	To     uint64 `json:"to"`
}

// cutReport is one piece that --repair has taken out of the journal.
type cutReport struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"`
	SavedAs string `json:"saved_as"`
}

// Run checks.
func (c *checkCommand) Run(env *Env) error {
	out := checkReport{Directory: c.Dir}
	if c.Repair {
		done, err := durablestreams.Repair(c.Dir)
		if err != nil {
			return openError(c.Dir, err)
		}
		out.Repaired = newRepairReport(done)
	}
	report, err := durablestreams.Check(c.Dir)
	if err != nil {
		return openError(c.Dir, err)
	}
	out.Report, out.Sound = report, report.OK()
	if c.JSON {
		err = writeJSON(env.Stdout, out)
	} else {
		err = out.writeText(env.Stdout)
	}
	if err == nil && !out.Sound {
		return errQuiet
	}
	return err
}

func newRepairReport(done *durablestreams.Repaired) *repairReport {
	r := &repairReport{Wrong: done.Wrong, Aside: done.Aside}
	for _, l := range done.Lost {
		r.Lost = append(r.Lost, lostReport{uint64(l.ID), string(l.Path), l.From, l.To})
	}
	for _, cut := range done.Cuts {
		r.Cuts = append(r.Cuts, cutReport{cut.Segment, cut.Offset, cut.Size - cut.Offset, cut.SavedAs})
	}
	return r
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (r *checkReport) writeText(w io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		_, e := fmt.Fprintf(w, format+"\n", args...)
		err = errors.Join(err, e)
	}
	if r.Repaired != nil {
		r.Repaired.writeText(line)
	}
	line("streams   %d", r.Streams)
	line("data      %d bytes, %d chunks in the archive", r.Bytes, r.Chunks)
	line("rows      %d", r.Rows)
	line("journal   %d records, archived up to record %d", r.Records, r.Archived)
	for _, p := range r.Problems {
		line("PROBLEM   %s: %s", p.Where, p.What)
	}
	if r.Sound {
		line("sound")
	} else {
		line("%d problems", len(r.Problems))
	}
	return err
}

func (r *repairReport) writeText(line func(format string, args ...any)) {
	for _, p := range r.Wrong {
		line("WAS       %s: %s", p.Where, p.What)
	}
	if r.Aside != "" {
		line("ASIDE     what was damaged of the archive is kept in %s", r.Aside)
	}
	for _, l := range r.Lost {
		line("LOST      stream %d (%s): data from %d to %d", l.Stream, l.Path, l.From, l.To)
	}
	for _, cut := range r.Cuts {
		line("CUT       journal segment %d from byte %d on, %d bytes; the whole file is kept as %s", cut.Segment, cut.Offset, cut.Bytes, cut.SavedAs)
	}
}

// inspectCommand is "ds inspect".
type inspectCommand struct {
	Dir  string   `arg:"" help:"Data directory. No server may be using it."`
	Only []string `enum:"journal,streams,chunks,rows" placeholder:"journal,streams,chunks,rows" help:"Parts to show. Default: all."`
	JSON bool     `name:"json" help:"One JSON object a line."`
}

// Help is the text below the summary.
func (inspectCommand) Help() string {
	return `Shows the records of the journal, and the streams, chunks and small rows of the archive: names, sizes,
positions and times, never the data. What is in the journal only is not in the archive yet. Nothing is changed.

Examples:

    ds inspect ds-data
    ds inspect ds-data --json | jq .`
}

// Run inspects.
func (c *inspectCommand) Run(env *Env) error {
	o := inspect.Options{JSON: c.JSON}
	for _, part := range c.Only {
		o.Parts = append(o.Parts, inspect.Part(part))
	}
	return openError(c.Dir, inspect.Dir(env.Stdout, vfs.Default, c.Dir, o))
}

// openError adds what to do about a data directory that cannot be opened.
func openError(dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case elsewhere(dir, err):
		return err
	case errors.Is(err, durablestreams.ErrNewer):
		return fmt.Errorf("%w\nnothing was changed; use a ds that is at least as new as the one that used %s before", err, dir)
	case errors.Is(err, durablestreams.ErrDamaged):
		return fmt.Errorf("%w\nds check %s says what is affected; ds check --repair %s takes it out, so that the rest is served", err, dir, dir)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission to use the data directory %s: %w", dir, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is not a data directory: %w", dir, err)
	case errors.Is(err, durablestreams.ErrLocked):
		by := "another server"
		if e, ok := errors.AsType[*store.LockedError](err); ok && e.Process != 0 {
			by = fmt.Sprintf("another server (process %d)", e.Process)
		}
		return fmt.Errorf("%s is in use by %s; stop it first, or use another directory", dir, by)
	}
	return err
}

// elsewhere reports whether an error is about a file that is not in a data directory, such
// as an access file: advice about the directory would lead away from it.
func elsewhere(dir string, err error) bool {
	e, ok := errors.AsType[*os.PathError](err)
	if !ok {
		return false
	}
	dir, path := absolute(dir), absolute(e.Path)
	below, err := filepath.Rel(dir, path)
	inside := err == nil && filepath.IsLocal(below)
	above, err := filepath.Rel(path, dir) // one of its parents, which could not be made
	return !inside && !(err == nil && filepath.IsLocal(above))
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// versionCommand is "ds version".
type versionCommand struct {
	JSON bool `name:"json" help:"As a JSON object."`
}

// Help is the text below the summary.
func (versionCommand) Help() string {
	return `Prints the version of ds, the commit it was built from and its date, the version of Go, and the
system that it is built for. A build that is not made from a git checkout knows no commit, and its version is (devel).

Examples:

    ds version
    ds version --json | jq -r .commit`
}

// Run prints what the build was stamped with.
func (c versionCommand) Run(env *Env) error {
	if c.JSON {
		return writeJSON(env.Stdout, version.Read())
	}
	_, err := fmt.Fprintf(env.Stdout, "ds %s\n", version.Read())
	return err
}
