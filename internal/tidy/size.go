package tidy

import "go/ast"

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
