package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// coveragePath is the page that maps what others describe to our symbols: a name on it
// has a user.
const coveragePath = "docs/COVERAGE.md"

// coverageName is a name of ours on that page: `pg.Group.Barrier`, `train/ddp.New`.
var coverageName = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Z][A-Za-z0-9]*)")

// names are package-level names, by the package's directory.
type names map[string]map[string]bool

func (n names) add(dir, name string) {
	if n[dir] == nil {
		n[dir] = make(map[string]bool)
	}
	n[dir][name] = true
}

// checkExports counts, by package, the exported names that no other package, example or
// row of the coverage page uses, and that no used name's own declaration shows. Values
// of an exported type count as used. Such names may only become fewer.
func (t *tree) checkExports() ([]Problem, error) {
	used, err := t.coverageNames()
	if err != nil {
		return nil, err
	}
	exported := make(names)
	for _, f := range t.files {
		f.addUses(used)
		if f.isLibrary() {
			f.addExports(exported, used)
		}
	}
	var problems []Problem
	for dir, all := range exported {
		idle := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return used[dir][name] })
		if len(idle) > 0 {
			problems = append(problems, Problem{
				Rule: "exports", Path: dir, Name: "-", Line: 1, Size: len(idle),
				What: fmt.Sprintf("package exports %d names without a user outside it; unexport or delete them, "+
					"or show them in an Example or in %s: %s", len(idle), coveragePath, strings.Join(idle, " ")),
			})
		}
	}
	return problems, nil
}

// coverageNames are the names that the coverage page uses.
func (t *tree) coverageNames() (names, error) {
	used := make(names)
	page, err := fs.ReadFile(t.root, coveragePath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", coveragePath, err)
	}
	for _, m := range coverageName.FindAllStringSubmatch(string(page), -1) {
		used.add(m[1], m[2])
	}
	return used, nil
}

// isLibrary: a program of others can import what the file declares.
func (f *file) isLibrary() bool {
	return !f.test && !f.generated && !f.isMain() && !slices.Contains(strings.Split(f.dir, "/"), "internal") &&
		!f.under("cmd", "examples", "test")
}

// addUses adds what f uses of packages of ours: of its own, if it is an external test,
// in examples only.
func (f *file) addUses(used names) {
	dirs := make(map[string]string) // by the name of the import
	for _, s := range f.ast.Imports {
		if dir, ours := strings.CutPrefix(importPath(s), module+"/"); ours {
			dirs[f.importName(importPath(s))] = dir
		}
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		example := ok && f.test && strings.HasPrefix(fn.Name.Name, "Example")
		ast.Inspect(d, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && dirs[id.Name] != "" && (dirs[id.Name] != f.dir || example) {
					used.add(dirs[id.Name], sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// addExports adds the exported names that f declares, and those of its package that
// their declarations show.
func (f *file) addExports(exported, used names) {
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !ast.IsExported(d.Name.Name) {
				continue
			}
			if d.Recv == nil {
				exported.add(f.dir, d.Name.Name)
			}
			f.addShown(used, d.Type)
		case *ast.GenDecl:
			f.addSpecs(exported, used, d)
		}
	}
}

func (f *file) addSpecs(exported, used names, d *ast.GenDecl) {
	var typ ast.Expr // of the constant before
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if ast.IsExported(s.Name.Name) {
				exported.add(f.dir, s.Name.Name)
				f.addShown(used, s.Type)
			}
		case *ast.ValueSpec:
			if d.Tok != token.CONST || s.Type != nil || s.Values != nil {
				typ = s.Type
			}
			id, _ := typ.(*ast.Ident)
			for _, name := range s.Names {
				if !ast.IsExported(name.Name) {
					continue
				}
				exported.add(f.dir, name.Name)
				if id != nil && ast.IsExported(id.Name) {
					used.add(f.dir, name.Name) // a value of that type
				}
				f.addShown(used, typ)
			}
		}
	}
}

// addShown adds the names of the package in an exported declaration, but for what its
// fields that are not exported are made of.
func (f *file) addShown(used names, typ ast.Node) {
	if typ == nil {
		return
	}
	ast.Inspect(typ, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if len(field.Names) == 0 || slices.ContainsFunc(field.Names, func(id *ast.Ident) bool { return id.IsExported() }) {
					f.addShown(used, field.Type)
				}
			}
			return false
		case *ast.SelectorExpr:
			return false // another package's
		case *ast.Ident:
			if n.IsExported() {
				used.add(f.dir, n.Name)
			}
		}
		return true
	})
}
