package tidy

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const troublesPage = "docs/TROUBLESHOOTING.md"

// TestTroubles: docs/TROUBLESHOOTING.md has every state, reason, cause and event of the
// rules, every exit status, every cause of a discarded step, and every warning and error
// that is logged; and its tables have none that there is not.
func TestTroubles(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	b, err := fs.ReadFile(root, troublesPage)
	if err != nil {
		t.Fatal(err)
	}
	all, problems, err := load(root)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	page := string(b)
	both := func(title string, want []string, fewest int) {
		t.Run(title, func(t *testing.T) { compareSection(t, page, title, want, fewest) })
	}
	both("States of a job", all.constants("quorum", "JobState"), 5)
	both("States of a replica", all.constants("quorum", "ReplicaState"), 16)
	both("Why there is no quorum", all.variable("quorum", "reasonNames"), 16)
	both("Causes", all.names("quorum", "CauseKind")[1:], 15) // the first is the kind of all, for an unknown number
	both("Events", append(all.variable("quorum", "eventNames"), all.constants("quorum/story", "Kind")...), 50)
	for _, name := range []string{"Sentence", "plain", "gone", "formed", "resumed"} {
		for _, part := range all.literalsOf("quorum/story", name) {
			if part = strings.Trim(part, ": "); strings.Contains(part, " ") && !strings.Contains(part, "%") && !strings.Contains(page, part) {
				t.Errorf("%s does not have %q of a sentence of the history", troublesPage, part)
			}
		}
	}
	var said []string
	for _, line := range all.loudLines() {
		if line.texts == nil {
			t.Errorf("%s logs a warning or an error whose text is no literal: name what it says in toldElsewhere", line.where)
		}
		said = append(said, line.texts...)
	}
	both("Lines of logs", said, 80)
	for _, text := range all.sentinelTexts(append(trainersErrors, "manager/internal/final", "pg/tcp/internal/frame", "pg/reach")) {
		if text, _, _ := strings.Cut(text, ": `"); !strings.Contains(page, "`"+text+"`") {
			t.Errorf("%s has no line that is found by the words of the error %q", troublesPage, text)
		}
	}
	for title, fewest := range map[string]int{"Commands, starts and connections": 30, "Errors of a program": 60, "Why a step was discarded": 12} {
		checkQuoted(t, all, sectionOf(t, page, title), fewest)
	}
	for _, cause := range all.errorTexts("manager", "errors.go") {
		if section := sectionOf(t, page, "Why a step was discarded"); !strings.Contains(section, "| `"+cause+"` |") {
			t.Errorf("%s: no line in the section of discarded steps for %q", troublesPage, cause)
		}
	}
	for _, status := range all.values("cmd/internal/cli", "Status") {
		if !strings.Contains(sectionOf(t, page, "Exit statuses"), "\n| "+status+" |") {
			t.Errorf("%s: no line for exit status %s", troublesPage, status)
		}
	}
}

// shownAs is a text as the page has it at least: up to the first mark behind which the
// values, or the advice, come.
func shownAs(text string) string {
	if i := strings.IndexAny(text, ":;"); i > 0 {
		return text[:i]
	}
	return text
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// compareSection compares what a section of the page has in backticks, in the first cells of
// its tables, with what there is.
func compareSection(t *testing.T, page, title string, want []string, fewest int) {
	section := sectionOf(t, page, title)
	if len(want) < fewest {
		t.Fatalf("%d found in the code, want %d at least: the test reads it wrongly", len(want), fewest)
	}
	there := make(map[string]bool)
	for _, text := range want {
		there[shownAs(text)] = true
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], " | ")
		for _, span := range codeSpan.FindAllStringSubmatch(first, -1) {
			name := shownAs(span[1])
			listed[name] = true
			if !there[name] {
				t.Errorf("%s has a line for %q, which there is not", troublesPage, name)
			}
		}
	}
	for name := range there {
		if !listed[name] && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s has no line for %q: what it means, and what to do", troublesPage, name)
		}
	}
}

// othersWords are what the standard library says.
var othersWords = []string{"certificate is valid for …, not …", "remote error: tls: bad certificate", "context deadline exceeded"}

// checkQuoted: what a section's tables quote in their first cells, but for what "…" stands
// for, and names in capitals, is said somewhere in the code.
func checkQuoted(t *testing.T, all *tree, section string, fewest int) {
	var code strings.Builder
	for _, f := range all.files {
		if !f.test {
			for _, text := range literals(f.ast) {
				code.WriteString(text) // literals that are added stand beside each other
			}
		}
	}
	quotes := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], " | ")
		for _, span := range codeSpan.FindAllStringSubmatch(first, -1) {
			if slices.Contains(othersWords, span[1]) || symbolSign.MatchString(span[1]) {
				continue
			}
			quotes++
			for _, part := range valuesInQuote.Split(span[1], -1) {
				if !strings.Contains(code.String(), strings.TrimSpace(part)) {
					t.Errorf("%s quotes %q, and nothing in the code says %q", troublesPage, span[1], part)
				}
			}
		}
	}
	if quotes < fewest {
		t.Errorf("%d quotes in the section, want %d at least: the test reads it wrongly", quotes, fewest)
	}
}

// valuesInQuote stand for what a line names, or between the words of two places.
var valuesInQuote = regexp.MustCompile(`…|: |\b[A-Z]{4,}\b|\b[0-9]+\b`)

func sectionOf(t *testing.T, page, title string) string {
	_, section, ok := strings.Cut(page, "\n## "+title+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", troublesPage, title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// specs calls f with every name that a package declares in its var and const blocks.
func (t *tree) specs(dir string, f func(path string, s *ast.ValueSpec)) {
	for _, file := range t.files {
		if file.dir != dir || file.test {
			continue
		}
		for _, d := range file.ast.Decls {
			if gen, ok := d.(*ast.GenDecl); ok && (gen.Tok == token.CONST || gen.Tok == token.VAR) {
				for _, s := range gen.Specs {
					f(file.path, s.(*ast.ValueSpec))
				}
			}
		}
	}
}

// constants are the texts of a package's constants of a type.
func (t *tree) constants(dir, kind string) (found []string) {
	t.specs(dir, func(_ string, s *ast.ValueSpec) {
		if id, ok := s.Type.(*ast.Ident); ok && id.Name == kind {
			found = append(found, literals(s)...)
		}
	})
	return found
}

// variable are the texts of a package's list of names.
func (t *tree) variable(dir, name string) (found []string) {
	t.specs(dir, func(_ string, s *ast.ValueSpec) {
		if len(s.Names) == 1 && s.Names[0].Name == name {
			found = append(found, literals(s)...)
		}
	})
	return found
}

// names are the texts of a type's String.
func (t *tree) names(dir, kind string) (found []string) {
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.dir != dir || fn.Name.Name != "String" || fn.Recv == nil {
				continue
			}
			if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok && id.Name == kind {
				found = append(found, literals(fn.Body)...)
			}
		}
	}
	return found
}

// errorTexts are those of the unexported errors of a file.
func (t *tree) errorTexts(dir, name string) (found []string) {
	t.specs(dir, func(path string, s *ast.ValueSpec) {
		if strings.HasSuffix(path, "/"+name) && strings.HasPrefix(s.Names[0].Name, "err") {
			found = append(found, literals(s)...)
		}
	})
	return found
}

// sentinelTexts are the texts of packages' exported errors.
func (t *tree) sentinelTexts(packages []string) (found []string) {
	for _, dir := range packages {
		t.specs(dir, func(_ string, s *ast.ValueSpec) {
			for i, name := range s.Names {
				if !strings.HasPrefix(name.Name, "Err") || i >= len(s.Values) {
					continue
				}
				if call, ok := s.Values[i].(*ast.CallExpr); ok && calls(call, "New") {
					found = append(found, literals(call)...)
				}
			}
		})
	}
	return found
}

// values are the numbers of a package's constants with a prefix.
func (t *tree) values(dir, prefix string) (found []string) {
	t.specs(dir, func(_ string, s *ast.ValueSpec) {
		if !strings.HasPrefix(s.Names[0].Name, prefix) || len(s.Values) != 1 {
			return
		}
		if lit, ok := s.Values[0].(*ast.BasicLit); ok && lit.Kind == token.INT {
			found = append(found, lit.Value)
		}
	})
	return slices.Compact(found)
}
