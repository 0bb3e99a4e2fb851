package tidy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

const protocolPage = "docs/PROTOCOL.md"

// defined finds where the page defines an invariant: in its table a line
// begins with "| **Q1** |".
var defined = regexp.MustCompile(`(?m)^\|\s*\*\*([QC][0-9]+)\*\*\s*\|`)

// fewestInvariants: the page had so many from the start. Fewer means that its
// form has changed, and this check sees nothing any more.
const fewestInvariants = 17

// checkInvariants wants each numbered invariant named in a test or in a
// transcript that a test plays.
func (t *tree) checkInvariants() ([]Problem, error) {
	page, err := fs.ReadFile(t.root, protocolPage)
	if errors.Is(err, fs.ErrNotExist) {
		return []Problem{{Rule: "invariants", Path: protocolPage, Name: "-", Line: 1, Size: 1,
			What: "the page that numbers the invariants is missing"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read invariants: %w", err)
	}
	found := defined.FindAllStringSubmatchIndex(string(page), -1)
	var problems []Problem
	if len(found) < fewestInvariants {
		problems = append(problems, Problem{Rule: "invariants", Path: protocolPage, Name: "-", Line: 1, Size: 1,
			What: fmt.Sprintf("found %d invariants, want at least %d; define each in a line \"| **Q1** | …\"",
				len(found), fewestInvariants)})
	}
	named, err := t.named()
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		name := string(page[m[2]:m[3]])
		if named[name] {
			continue
		}
		problems = append(problems, Problem{Rule: "invariants", Path: protocolPage, Name: name, Size: 1,
			Line: 1 + strings.Count(string(page[:m[0]]), "\n"),
			What: fmt.Sprintf("no test names %s; write the test that fails without it, and name it there", name)})
	}
	return problems, nil
}

// mention is where text names an invariant.
var mention = regexp.MustCompile(`\b[QC][0-9]{1,3}\b`)

// named are the invariants that tests and transcripts name.
func (t *tree) named() (map[string]bool, error) {
	names := make(map[string]bool)
	err := fs.WalkDir(t.root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n != "testdata" && skipDir(n) || p == tidied {
				return fs.SkipDir
			}
			return nil
		}
		transcript := strings.Contains(p, "testdata/") && path.Ext(p) == "" || path.Ext(p) == ".txt"
		sim := strings.HasPrefix(p, "internal/sim/") && strings.HasSuffix(p, ".go")
		if !strings.HasSuffix(p, "_test.go") && !transcript && !sim {
			return nil
		}
		b, err := fs.ReadFile(t.root, p)
		for _, name := range mention.FindAllString(string(b), -1) {
			names[name] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	return names, nil
}
