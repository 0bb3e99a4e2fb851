package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// logLine is a call that writes a warning or an error, and what it can say.
type logLine struct {
	where string // file and function
	texts []string
}

// loudMethods begin a line that a person should see. What a level is that is computed is
// not known here, so it counts.
var loudMethods = []string{"Warn", "Error", "WithLevel"}

// toldElsewhere are lines whose text no literal beside them has. Of those without a text
// other sections of the page have all.
var toldElsewhere = map[string][]string{
	"lighthouse/cluster/gossip.go Write":         {"source=gossip"},
	"lighthouse/cluster/raftlog.go Accept":       {"source=raft"},
	"lighthouse/internal/joblog/joblog.go Event": {},
	"manager/notice.go takeNotice":               {"member lost"},
	"pg/tcp/dial.go acceptAll":                   {"connection not accepted", "sharing not accepted"},
}

// unseenLogs are folders whose logs are no operator's to read.
var unseenLogs = []string{"internal/sim", "test", "examples", "internal/tidy", "internal/testkit", "cmd/skerry"}

// loudLines are all warnings and errors of the tree that an operator may meet.
func (t *tree) loudLines() []logLine {
	var all []logLine
	for _, f := range t.files {
		unseen := slices.ContainsFunc(unseenLogs, func(dir string) bool { return f.dir == dir || strings.HasPrefix(f.dir, dir+"/") })
		if f.test || f.generated || unseen || strings.HasSuffix(f.dir, "test") {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				all = append(all, t.loudIn(f, fn)...)
			}
		}
	}
	return all
}

func (t *tree) loudIn(f *file, fn *ast.FuncDecl) []logLine {
	var all []logLine
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || !calls(call, "Msg") {
			return true
		}
		loud, begun := isLoud(call.Fun), []*ast.AssignStmt(nil)
		if base, ok := chainBase(call.Fun).(*ast.Ident); ok && !loud {
			begun = loudAssignments(fn, base.Name)
			loud = len(begun) > 0
		}
		if loud {
			where := fmt.Sprintf("%s %s", f.path, fn.Name.Name)
			texts, known := toldElsewhere[where]
			if !known {
				texts = t.texts(f, fn, call.Args[0], begun)
			}
			all = append(all, logLine{where, texts})
		}
		return true
	})
	return all
}

func calls(call *ast.CallExpr, method string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == method
}

// isLoud says that a chain of calls has one of a loud level in it.
func isLoud(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.CallExpr:
			e = x.Fun
		case *ast.SelectorExpr:
			if slices.Contains(loudMethods, x.Sel.Name) {
				return true
			}
			e = x.X
		default:
			return false
		}
	}
}

// chainBase is what the first call of a chain is made on.
func chainBase(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.CallExpr:
			e = x.Fun
		case *ast.SelectorExpr:
			e = x.X
		default:
			return e
		}
	}
}

// loudAssignments are those of a function that give a variable a line of a loud level.
func loudAssignments(fn *ast.FuncDecl, name string) []*ast.AssignStmt {
	var found []*ast.AssignStmt
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, to := range a.Lhs {
			if id, ok := to.(*ast.Ident); ok && id.Name == name && isLoud(a.Rhs[i]) {
				found = append(found, a)
			}
		}
		return true
	})
	return found
}

// texts are what an argument can be: a literal, literals that are added, one that a variable
// is given together with the line, or those that a method of the package returns.
func (t *tree) texts(f *file, fn *ast.FuncDecl, arg ast.Expr, begun []*ast.AssignStmt) []string {
	switch arg := arg.(type) {
	case *ast.BasicLit:
		return literals(arg)
	case *ast.BinaryExpr:
		return []string{strings.Join(literals(arg), "")}
	case *ast.Ident:
		var found []string
		for _, a := range begun {
			for i, to := range a.Lhs {
				if id, ok := to.(*ast.Ident); ok && id.Name == arg.Name {
					found = append(found, literals(a.Rhs[i])...)
				}
			}
		}
		return found
	case *ast.CallExpr:
		if s, ok := arg.Fun.(*ast.SelectorExpr); ok {
			return t.literalsOf(f.dir, s.Sel.Name)
		}
	}
	return nil
}

// literalsOf are the texts in the functions and methods of a name in a package.
func (t *tree) literalsOf(dir, name string) []string {
	var found []string
	for _, f := range t.files {
		if f.dir != dir || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Body != nil {
				found = append(found, literals(fn.Body)...)
			}
		}
	}
	return found
}

// literals are the texts below a node, in their order.
func literals(n ast.Node) []string {
	var found []string
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
