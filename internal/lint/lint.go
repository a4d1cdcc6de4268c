// Package lint holds the rules of this repository that a compiler does not know:
// which package may import which, how large a file may grow, what production
// code may not do. The rules are plain functions from parsed files to findings,
// and every finding says how to repair it. The package's test applies them to the
// tree; it changes nothing and is no part of any program.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// module is the path of this module, as go.mod names it.
const module = "durablestreams"

// File is one parsed Go file. Name is its slash-separated path in the repository.
type File struct {
	Name  string
	Lines int
	AST   *ast.File
	fset  *token.FileSet
}

// Parse reads one source text.
func Parse(name string, src []byte) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &File{Name: name, Lines: strings.Count(string(src), "\n"), AST: tree, fset: fset}, nil
}

// IsTest tells whether the file is only compiled for tests.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Dir is the package's folder, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Name) }

// Imports lists the paths that the file imports.
func (f *File) Imports() []string {
	var paths []string
	for _, spec := range f.AST.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// Finding is one broken rule at one place.
type Finding struct {
	File string
	Line int
	Text string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

func (f *File) at(pos token.Pos, format string, args ...any) Finding {
	line := 1
	if pos.IsValid() {
		line = f.fset.Position(pos).Line
	}
	return Finding{File: f.Name, Line: line, Text: fmt.Sprintf(format, args...)}
}

// within tells whether dir is one of the folders or lies below one.
func within(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return dir == f || strings.HasPrefix(dir, f+"/")
	})
}

// harness are the folders whose production is tests. No program reaches them.
var harness = []string{"conformance", "streamtest", "internal/dstest", "internal/metamorphic", "internal/history", "internal/invariants", "internal/lint", "internal/mutants"}
