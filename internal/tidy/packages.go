package tidy

import (
	"go/ast"
	"strings"
)

// checkPackages wants a comment for every package, and a check for leaked
// goroutines where a package starts any.
func (t *tree) checkPackages() []Problem {
	var problems []Problem
	for _, dir := range t.dirs() {
		var code []*file
		documented := false
		for _, f := range t.in(dir) {
			if f.test {
				continue
			}
			code = append(code, f)
			documented = documented || f.generated || f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != ""
		}
		if len(code) == 0 {
			continue
		}
		if !documented {
			problems = append(problems, t.problem("package-comment", code[0], code[0].ast.Name,
				"package %s has no comment; say in doc.go what it is for, who may call it, and what it promises", dir))
		}
		if at, f := firstGo(code); at != nil && leaksMatter(code[0]) && !t.checksLeaks(dir) {
			problems = append(problems, t.problem("goleak", f, at,
				"package %s starts goroutines and does not check for leaks; "+
					"add func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }", dir))
		}
	}
	return problems
}

// leaksMatter: a program's goroutines end with it, and a conformance suite runs
// in the tests of others.
func leaksMatter(f *file) bool { return !f.isMain() && !strings.HasSuffix(f.dir, "test") }

// firstGo is the first place that starts a goroutine.
func firstGo(files []*file) (at ast.Node, in *file) {
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if at == nil && startsGoroutine(n) {
				at, in = n, f
			}
			return at == nil
		})
	}
	return at, in
}

// startsGoroutine: a go statement, or a call of a wait group's Go.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Go" && len(n.Args) == 1
	}
	return false
}

// checksLeaks: the package's tests mention goleak.
func (t *tree) checksLeaks(dir string) bool {
	for _, f := range t.in(dir) {
		if f.test && f.importName("go.uber.org/goleak") != "" {
			return true
		}
	}
	return false
}

// checkGenerated wants the standard line in files that a generator writes.
func (t *tree) checkGenerated() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if strings.HasSuffix(f.path, ".pb.go") && !f.generated {
			problems = append(problems, t.problem("generated", f, nil,
				"a generated file without its mark; have the generator write \"// Code generated … DO NOT EDIT.\""))
		}
	}
	return problems
}
