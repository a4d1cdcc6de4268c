package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// MaxLines is the size at which a production file has two ideas in it.
const MaxLines = 600

// Size refuses production files that have grown too long.
func Size(f *File) []Finding {
	if f.IsTest() || f.Lines <= MaxLines {
		return nil
	}
	return []Finding{f.at(token.NoPos, "%d lines, more than %d: find the second idea in the file and give it a file (or a package) of its own", f.Lines, MaxLines)}
}

// PackageComments wants every package to say what it is. It takes all files.
func PackageComments(files []*File) []Finding {
	first := map[string]*File{}
	documented := map[string]bool{}
	for _, f := range files {
		if f.IsTest() {
			continue
		}
		dir := f.Dir()
		if first[dir] == nil || f.Name < first[dir].Name {
			first[dir] = f
		}
		documented[dir] = documented[dir] || f.AST.Doc != nil
	}
	var found []Finding
	for dir, f := range first {
		if !documented[dir] {
			found = append(found, f.at(f.AST.Package, "package %s has no comment: write above one package clause what it does, what it does not, and who may call it at once", f.AST.Name.Name))
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	return found
}

// Calls refuses calls that production code (and partly test code) may not make.
func Calls(f *File) []Finding {
	var found []Finding
	command := within(f.Dir(), "cmd") || f.AST.Name.Name == "main"
	for _, decl := range f.AST.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, f.at(fn.Pos(), "no init functions: work at import time cannot be ordered, tested or left out. Call it from the code that needs it"))
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		name := pkg.Name + "." + sel.Sel.Name
		switch {
		case name == "time.Sleep" && !maySleep(f):
			found = append(found, f.at(sel.Pos(), "no time.Sleep: wait for the event itself on a channel, or put the test into a synctest bubble where sleeping is free"))
		case f.IsTest() || command:
		case strings.HasPrefix(name, "fmt.Print"), name == "os.Stdout":
			found = append(found, f.at(sel.Pos(), "no %s below cmd: take an io.Writer or a *slog.Logger from the caller", name))
		case name == "os.Exit", strings.HasPrefix(name, "log.Fatal"), strings.HasPrefix(name, "log.Print"):
			found = append(found, f.at(sel.Pos(), "no %s below cmd: return the error and let main decide", name))
		}
		return true
	})
	return found
}

// maySleep: harnesses that watch another process may, and bubbles of virtual time.
func maySleep(f *File) bool {
	return within(f.Dir(), "conformance", "internal/dstest") || f.IsTest() && slices.Contains(f.Imports(), "testing/synctest")
}

// tableCalls are calls whose result is fixed once made: fine for a package variable.
var tableCalls = []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "crc32.MakeTable", "strings.NewReplacer", "big.NewInt", "template.Must"}

// Variables refuses package variables other than errors, tables and pools.
func Variables(f *File) []Finding {
	if f.IsTest() {
		return nil
	}
	var found []Finding
	for _, decl := range f.AST.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			embedded := commentHas(gen.Doc, "//go:embed") || commentHas(value.Doc, "//go:embed")
			for i, name := range value.Names {
				if embedded || fixedVariable(value, i, name.Name) {
					continue
				}
				found = append(found, f.at(name.Pos(), "package variable %s: only errors, tables and pools live as long as the process. Make it a field of the value that owns it, a constant, or a composite literal that nobody writes", name.Name))
			}
		}
	}
	return found
}

func commentHas(group *ast.CommentGroup, prefix string) bool {
	return group != nil && slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, prefix) })
}

func fixedVariable(spec *ast.ValueSpec, i int, name string) bool {
	if name == "_" {
		return true
	}
	if typ, ok := spec.Type.(*ast.SelectorExpr); ok && selector(typ) == "sync.Pool" {
		return true
	}
	if i >= len(spec.Values) {
		return false
	}
	if strings.HasPrefix(name, "err") || strings.HasPrefix(name, "Err") {
		return true
	}
	value := spec.Values[i]
	if unary, ok := value.(*ast.UnaryExpr); ok && unary.Op == token.AND {
		value = unary.X
	}
	switch v := value.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		switch fun := v.Fun.(type) {
		case *ast.SelectorExpr:
			return slices.Contains(tableCalls, selector(fun))
		case *ast.ArrayType:
			return true // a conversion such as []byte("...")
		case *ast.Ident:
			return strings.HasPrefix(fun.Name, "build") || strings.HasPrefix(fun.Name, "must")
		case *ast.FuncLit:
			return true // a table computed in place
		}
	}
	return false
}

func selector(s *ast.SelectorExpr) string {
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// machinePath finds home and work folders of the machine somebody worked on.
var machinePath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:,])(/(?:work|root|home|Users)/[\w.-]+)`)

// registryHost finds download hosts of package registries.
var registryHost = regexp.MustCompile(`(?:registry\.(?:npmjs|yarnpkg)\.|proxy\.golang\.|static\.crates\.|files\.pythonhosted\.)\w+`)

// Places refuses text that only makes sense on one machine. It takes the content
// of any tracked file.
func Places(name, content string) []Finding {
	var found []Finding
	for i, line := range strings.Split(content, "\n") {
		if m := machinePath.FindStringSubmatch(line); m != nil {
			found = append(found, Finding{name, i + 1, "names " + m[1] + ", a folder of one machine: make it relative, a temporary folder, or an option"})
		}
		if m := registryHost.FindString(line); m != "" {
			found = append(found, Finding{name, i + 1, "names the download host " + m + ": leave hosts to the user's own settings (npm: omit-lockfile-registry-resolved)"})
		}
	}
	return found
}
