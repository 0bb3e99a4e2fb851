package tidy

import (
	"fmt"
	"go/ast"
)

// checkSize bounds functions and files. What a generator wrote is exempt.
func (t *tree) checkSize() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if f.generated {
			continue
		}
		most := maxFileLines
		if f.test {
			most = maxTestFileLines
		}
		if f.lines > most {
			p := t.problem("file-length", f, nil,
				"file has %d lines, want at most %d; split it by what it is about", f.lines, most)
			p.Size = f.lines
			problems = append(problems, p)
		}
		f.funcs(func(name string, fn *ast.FuncDecl) {
			n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if n <= maxFuncLines {
				return
			}
			p := t.problem("func-length", f, fn,
				"%s has %d lines, want at most %d; give a part of it a name", name, n, maxFuncLines)
			p.Name, p.Size = name, n
			problems = append(problems, p)
		})
	}
	return problems
}

// packageUnit is how many lines one unit of a package's debt is, so that not every
// commit has to touch the ratchet.
const packageUnit = 100

// checkPackageSize bounds a package's production code. What was larger before stands in
// the ratchet, in hundreds of lines. Of a package that ought to be a third comments these
// do not count: a sentence beside a rule must not cost a line of the rule.
func (t *tree) checkPackageSize() []Problem {
	lines := make(map[string]int)
	for _, f := range t.files {
		if !f.generated && !f.test {
			lines[f.dir] += f.lines
			if f.under(explained...) {
				lines[f.dir] -= t.commentLines(f)
			}
		}
	}
	var problems []Problem
	for dir, n := range lines {
		if n <= maxPackageLines {
			continue
		}
		problems = append(problems, Problem{
			Rule: "package-length", Path: dir, Name: "-", Line: 1, Size: (n + packageUnit - 1) / packageUnit,
			What: fmt.Sprintf("package has %d lines, want at most %d, or what the ratchet allows; give a part of it a package", n, maxPackageLines),
		})
	}
	return problems
}

// commentLines counts the lines that hold a comment and nothing else.
func (t *tree) commentLines(f *file) int {
	code := make(map[int]bool) // the line on which something ends
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.CommentGroup, *ast.Comment:
			return false
		}
		code[t.fset.Position(n.End()).Line], code[t.fset.Position(n.Pos()).Line] = true, true
		return true
	})
	count := 0
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			first, last := t.fset.Position(c.Pos()).Line, t.fset.Position(c.End()).Line
			if code[first] {
				first++ // it stands behind code
			}
			count += last - first + 1
		}
	}
	return count
}
