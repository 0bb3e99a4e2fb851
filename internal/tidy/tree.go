package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// module is the path that imports of ours begin with.
const module = "github.com/skerry-ft/skerry"

// Problem is one place that breaks a rule.
type Problem struct {
	Rule string // a word, as the ratchet names it
	Path string // from the root, with slashes
	Name string // the function, or "-"
	Line int
	Size int // how bad: lines of a function, or 1
	What string
}

// String is how a test prints it: an editor can follow it.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s [%s]", p.Path, p.Line, p.What, p.Rule)
}

// file is one Go file.
type file struct {
	path      string // from the root, with slashes
	dir       string // its package, from the root; "." is the root
	ast       *ast.File
	lines     int
	test      bool // _test.go
	generated bool
}

// isMain tells whether the file belongs to a program.
func (f *file) isMain() bool { return f.ast.Name.Name == "main" }

// under tells whether the file is in one of dirs, or below.
func (f *file) under(dirs ...string) bool {
	for _, d := range dirs {
		if f.dir == d || strings.HasPrefix(f.dir, d+"/") {
			return true
		}
	}
	return false
}

// tree is all Go files of a repository.
type tree struct {
	root  fs.FS
	fset  *token.FileSet
	files []*file
}

// skipDir: nothing below is Go code of ours.
func skipDir(name string) bool {
	switch name {
	case "testdata", "bin", "tmp", "artifacts", "vendor", "node_modules":
		return true
	}
	return len(name) > 1 && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
}

// load parses all Go files. A file that does not parse is a problem, and is
// left out.
func load(root fs.FS) (*tree, []Problem, error) {
	t := &tree{root: root, fset: token.NewFileSet()}
	var problems []Problem
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go"):
			return nil
		}
		src, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(t.fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			problems = append(problems, Problem{Rule: "parse", Path: p, Name: "-", Line: 1, Size: 1,
				What: fmt.Sprintf("does not parse: %v", err)})
			return nil
		}
		t.files = append(t.files, &file{
			path:      p,
			dir:       path.Dir(p),
			ast:       parsed,
			lines:     strings.Count(string(src), "\n"),
			test:      strings.HasSuffix(p, "_test.go"),
			generated: ast.IsGenerated(parsed),
		})
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read Go files: %w", err)
	}
	return t, problems, nil
}

// problem makes one at a place in f.
func (t *tree) problem(rule string, f *file, at ast.Node, format string, args ...any) Problem {
	line := 1
	if at != nil {
		line = t.fset.Position(at.Pos()).Line
	}
	return Problem{Rule: rule, Path: f.path, Name: "-", Line: line, Size: 1, What: fmt.Sprintf(format, args...)}
}

// dirs are the packages, each with its files, in order.
func (t *tree) dirs() []string {
	seen := make(map[string]bool)
	var dirs []string
	for _, f := range t.files {
		if !seen[f.dir] {
			seen[f.dir] = true
			dirs = append(dirs, f.dir)
		}
	}
	sort.Strings(dirs)
	return dirs
}

func (t *tree) in(dir string) []*file {
	var fs []*file
	for _, f := range t.files {
		if f.dir == dir {
			fs = append(fs, f)
		}
	}
	return fs
}

// importPath is what an import spec names.
func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value // the parser has checked it
	}
	return p
}

// importName is the name under which f knows the package at p, or "".
func (f *file) importName(p string) string {
	for _, s := range f.ast.Imports {
		if importPath(s) != p {
			continue
		}
		if s.Name != nil {
			return s.Name.Name
		}
		return path.Base(p)
	}
	return ""
}

// selects tells whether n is pkg.name, where pkg is an import path and name is
// one of names; with no names, any.
func (f *file) selects(n ast.Node, pkg string, names ...string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok || f.importName(pkg) == "" || id.Name != f.importName(pkg) {
		return false
	}
	for _, name := range names {
		if sel.Sel.Name == name {
			return true
		}
	}
	return len(names) == 0
}

// funcs calls do for each function with a body.
func (f *file) funcs(do func(name string, fn *ast.FuncDecl)) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			do(funcName(fn), fn)
		}
	}
}

// funcName is "Func" or "Type.Method".
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}
