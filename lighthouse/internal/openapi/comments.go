package openapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// Comments reads the comments of the struct types in the Go files of a folder, by "Type"
// and "Type.Field".
func Comments(dir fs.FS) (map[string]string, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				collect(all, g)
			}
		}
	}
	return all, nil
}

func collect(all map[string]string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		all[t.Name.Name] = words(g.Doc, t.Doc)
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				all[t.Name.Name+"."+name.Name] = words(f.Doc, f.Comment)
			}
		}
	}
}

// words are the comments in one line.
func words(groups ...*ast.CommentGroup) string {
	var all []string
	for _, g := range groups {
		if g != nil {
			all = append(all, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(all, " ")
}
