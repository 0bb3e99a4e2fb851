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
	declared := make(map[string]bool) // without their owners, which the table often leaves out
	for _, dir := range []string{"quorum", "quorum/shell"} {
		symbols, err := readSymbols(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		for name := range symbols.names {
			declared[name[strings.LastIndexByte(name, '.')+1:]] = true
		}
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

var (
	namedSection = regexp.MustCompile(`§(\d+a?(?:\.\d+)?)`)
	heading      = regexp.MustCompile(`^#+ (\d+a?(?:\.\d+)?)\.? `)
	item         = regexp.MustCompile(`^(\d+)\. `)
)

// TestSectionsExist: the sections of PROTOCOL that quorum's comments name are there, as
// a heading or as an item of a section's list.
func TestSectionsExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	section := ""
	for line := range strings.Lines(string(page)) {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
			there[section] = true
		} else if m := item.FindStringSubmatch(line); m != nil {
			there[section+"."+m[1]] = true
		}
	}
	files, err := fs.Glob(root, "quorum/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range files {
		text, err := fs.ReadFile(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedSection.FindAllStringSubmatch(string(text), -1) {
			if named++; !there[m[1]] {
				t.Errorf("%s names §%s: %s has no such section", path, m[1], protocolPage)
			}
		}
	}
	if named < fewestRules {
		t.Errorf("quorum names %d sections, want at least %d: are they written otherwise now?", named, fewestRules)
	}
}
