package tidy

import (
	"slices"
	"strings"
)

// checkImports holds every import of ours against the table.
func (t *tree) checkImports() []Problem {
	var problems []Problem
	for _, f := range t.files {
		key, known := keyOf(f.dir)
		if f.dir == "." || !known {
			problems = append(problems, t.problem("imports", f, f.ast.Name,
				"package %s is not in the table of imports; add a line for it to mayImport in internal/tidy/table.go", f.dir))
			continue
		}
		for _, s := range f.ast.Imports {
			target, ours := strings.CutPrefix(importPath(s), module+"/")
			if !ours || target == f.dir || allowed(key, target, f.test) {
				continue
			}
			problems = append(problems, t.problem("imports", f, s,
				"%s must not import %s; move the code to the side that may, take an interface or a value instead, "+
					"or have the edge reviewed in internal/tidy/table.go", f.dir, target))
		}
	}
	return problems
}

// keyOf is the longest key of the table at or above dir.
func keyOf(dir string) (string, bool) {
	for key := dir; ; {
		if _, ok := mayImport[key]; ok {
			return key, true
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return "", false
		}
		key = key[:i]
	}
}

// allowed tells whether packages under key may import target.
func allowed(key, target string, test bool) bool {
	if own, ok := keyOf(target); ok && own == key {
		return true
	}
	if key != pureDir && slices.Contains(openToAll, target) {
		return true
	}
	if matchesAny(mayImport[key], target) {
		return true
	}
	return test && (openToTest(target) || matchesAny(testsMayImport[key], target))
}

// openToTest tells whether the tests of every package may import target.
func openToTest(target string) bool {
	return strings.HasSuffix(target, "test") || slices.Contains(openToTests, target)
}

func matchesAny(patterns []string, target string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		base, below := strings.CutSuffix(p, "/...")
		return target == base || below && strings.HasPrefix(target, base+"/")
	})
}
