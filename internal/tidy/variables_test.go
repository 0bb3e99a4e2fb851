package tidy

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// variablesPage has every environment variable.
const variablesPage = "docs/VARIABLES.md"

// A variable is a string of the code in capitals with an underscore, or the argument of
// a call that reads one.
var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)

// noVariables are words in capitals that are none.
var noVariables = []string{"F8_E4M3", "F8_E5M2"}

// TestVariables: docs/VARIABLES.md has the variables that the code reads, and no others.
func TestVariables(t *testing.T) {
	t.Parallel()
	all, _, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]string) // where, by name
	for _, f := range all.files {
		ofPrograms := f.path == "internal/testkit/wall.go" // its variable is of the programs that it builds
		if f.test || f.generated || f.under("test", "internal/tidy") || ofPrograms {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && variableName.MatchString(text) {
					read[text] = f.path
				}
			}
			return true
		})
	}
	for _, word := range noVariables {
		if _, ok := read[word]; !ok {
			t.Errorf("%s is in the code no more: take it out of noVariables", word)
		}
		delete(read, word)
	}
	read["RANK"] = "manager/env.go"
	page, err := fs.ReadFile(all.root, variablesPage)
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		for _, sign := range coverageSign.FindAllStringSubmatch(line, -1) {
			if strings.HasPrefix(line, "|") && (variableName.MatchString(sign[1]) || sign[1] == "RANK") {
				told[sign[1]] = true
			}
		}
	}
	if len(read) < 50 {
		t.Errorf("%d variables in the code: the test reads it wrongly", len(read))
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if !told[name] {
			t.Errorf("%s reads %s, which %s does not have", read[name], name, variablesPage)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if _, ok := read[name]; !ok {
			t.Errorf("%s has %s, which nothing reads", variablesPage, name)
		}
	}
}
