package tidy

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// tablePath is where the table of imports stands.
const tablePath = "internal/tidy/table.go"

// testsDir has nothing but tests, whose edges are ordinary ones.
const testsDir = "test"

// checkEdges reports what the table allows and no file does: rows without a package,
// edges of mayImport that no file uses which is not a test, and edges of
// testsMayImport that no test needs.
func (t *tree) checkEdges() []Problem {
	i := slices.IndexFunc(t.files, func(f *file) bool { return f.path == tablePath })
	if i < 0 {
		return nil
	}
	table, code, tests := t.files[i], t.imported(false), t.imported(true)
	var problems []Problem
	eachEdge(table, "mayImport", func(key string, row ast.Expr, edge *ast.BasicLit) {
		target := unquoted(edge)
		switch {
		case code[key] == nil && tests[key] == nil:
			problems = append(problems, t.problem("imports", table, row, "no package is at or below %s; take the row out", key))
		case edge == nil || anyMatches(target, code[key]) || key == testsDir && anyMatches(target, tests[key]):
		case anyMatches(target, tests[key]):
			problems = append(problems, t.problem("imports", table, edge,
				"of %s only tests import %s; move the edge to testsMayImport, where tests need one", key, target))
		default:
			problems = append(problems, t.problem("imports", table, edge, "%s does not import %s; take the edge out", key, target))
		}
	})
	eachEdge(table, "testsMayImport", func(key string, _ ast.Expr, edge *ast.BasicLit) {
		needed := slices.DeleteFunc(slices.Clone(tests[key]), func(target string) bool {
			return allowed(key, target, false) || openToTest(target)
		})
		if target := unquoted(edge); edge != nil && !anyMatches(target, needed) {
			problems = append(problems, t.problem("imports", table, edge,
				"tests of %s do not import %s, or may without this edge; take it out", key, target))
		}
	})
	return problems
}

// imported are the packages of ours that files import, tests or all others, by the key
// that judges the file. A key without an import has an empty list, one without a file none.
func (t *tree) imported(test bool) map[string][]string {
	by := make(map[string][]string)
	for _, f := range t.files {
		key, known := keyOf(f.dir)
		if !known || f.test != test {
			continue
		}
		if by[key] == nil {
			by[key] = []string{}
		}
		for _, s := range f.ast.Imports {
			target, ours := strings.CutPrefix(importPath(s), module+"/")
			if own, _ := keyOf(target); ours && own != key {
				by[key] = append(by[key], target)
			}
		}
	}
	return by
}

// eachEdge calls do for each edge of a map in the table, and for each row that has none
// with a nil edge.
func eachEdge(table *file, name string, do func(key string, row ast.Expr, edge *ast.BasicLit)) {
	ast.Inspect(table.ast, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name || len(spec.Values) == 0 {
			return true
		}
		for _, row := range elements(spec.Values[0]) {
			pair, ok := row.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			key, _ := pair.Key.(*ast.BasicLit)
			edges := elements(pair.Value)
			for _, e := range edges {
				edge, _ := e.(*ast.BasicLit)
				do(unquoted(key), pair.Key, edge)
			}
			if len(edges) == 0 {
				do(unquoted(key), pair.Key, nil)
			}
		}
		return false
	})
}

// elements are those of a composite literal.
func elements(e ast.Expr) []ast.Expr {
	if lit, ok := e.(*ast.CompositeLit); ok {
		return lit.Elts
	}
	return nil
}

// unquoted is the text of a string literal, or "".
func unquoted(lit *ast.BasicLit) string {
	if lit == nil {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return "" // no string: it names no package
	}
	return text
}

func anyMatches(pattern string, targets []string) bool {
	return slices.ContainsFunc(targets, func(target string) bool { return matchesAny([]string{pattern}, target) })
}
