package tidy

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// fewestRules is how many rows the table of rules and code had when this test was
// written.
const fewestRules = 20

var codeName = regexp.MustCompile("`(?:[A-Za-z]*\\.)?([A-Za-z]+)`")

// TestEveryRuleHasItsCode: what PROTOCOL §9 names as the code of a rule is declared in
// quorum, so that a reader who searches for the word finds the rule.
func TestEveryRuleHasItsCode(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n| rule | code |\n")
	section, _, _ = strings.Cut(section, "\n\n")
	symbols, err := readSymbols(root, "quorum")
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool) // without their owners, which the table often leaves out
	for name := range symbols.names {
		declared[name[strings.LastIndexByte(name, '.')+1:]] = true
	}
	rules := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") {
			continue
		}
		rules++
		for _, m := range codeName.FindAllStringSubmatch(cells[2], -1) {
			if !declared[m[1]] {
				t.Errorf("%s §9 names %s for %q: nothing in quorum is called so", protocolPage, m[0], strings.TrimSpace(cells[1]))
			}
		}
	}
	if rules < fewestRules {
		t.Errorf("the table has %d rules, want at least %d: has its form changed?", rules, fewestRules)
	}
}
