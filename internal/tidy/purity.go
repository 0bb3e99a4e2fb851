package tidy

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkPurity holds quorum/, and what is below it, to what it promises: no I/O, no goroutine, no
// lock, no channel, no clock. Its tests may do as they like.
func (t *tree) checkPurity() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if !f.under(pureDir) || f.test {
			continue
		}
		for _, s := range f.ast.Imports {
			if p := importPath(s); !pureImports[p] && !pure(strings.TrimPrefix(p, module+"/")) {
				problems = append(problems, t.problem("purity", f, s,
					"quorum must not import %s; keep the rule here and do the rest in the shell that calls it", p))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if what := impure(f, n); what != "" {
				problems = append(problems, t.problem("purity", f, n,
					"quorum must not have %s; take facts and the time as arguments, and return a decision", what))
			}
			return true
		})
	}
	return problems
}

// pure says whether a folder is quorum's, or below it.
func pure(dir string) bool { return dir == pureDir || strings.HasPrefix(dir, pureDir+"/") }

// impure names what makes n impure, or is empty.
func impure(f *file, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a go statement"
	case *ast.SelectStmt:
		return "a select"
	case *ast.ChanType:
		return "a channel"
	case *ast.SendStmt:
		return "a channel send"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel receive"
		}
	case *ast.SelectorExpr:
		if f.selects(n, "time", clockCalls...) {
			return "time." + n.Sel.Name
		}
	}
	return ""
}
