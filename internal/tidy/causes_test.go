package tidy

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	transcriptsFolder = "quorum/testdata/transcripts"
	causesFile        = "internal/sim/cause.go"
	// fewestCauses is how many rows the table had when this test was written.
	fewestCauses = 20
)

var (
	number    = regexp.MustCompile(`\b[0-9]{2}\b`)
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	inQuotes  = regexp.MustCompile("`([a-z-]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	causeName = regexp.MustCompile(`\{Name: "([a-z-]+)"`)
)

// TestEveryCauseIsShown: each row of PROTOCOL's table of who is left out (L1) names a
// transcript or a test that exists, and the causes that the simulator has are those
// that the table names.
func TestEveryCauseIsShown(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 6a. ")
	section, _, _ = strings.Cut(section, "\n## ")
	transcripts, tests := transcriptNumbers(t, root), testNames(t, root)
	code, err := fs.ReadFile(root, causesFile)
	if err != nil {
		t.Fatal(err)
	}
	simulated := map[string]bool{}
	for _, m := range causeName.FindAllStringSubmatch(string(code), -1) {
		simulated[m[1]] = false
	}
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| cause |") {
			continue
		}
		rows++
		cause, shown := strings.TrimSpace(cells[1]), cells[5]
		some := 0
		for _, n := range number.FindAllString(shown, -1) {
			if some++; !slices.Contains(transcripts, n) {
				t.Errorf("%q is shown by %s: no transcript in %s has that number", cause, n, transcriptsFolder)
			}
		}
		for _, m := range testName.FindAllStringSubmatch(shown, -1) {
			if some++; !tests[m[1]] {
				t.Errorf("%q is shown by %s, which is no test", cause, m[1])
			}
		}
		if some == 0 {
			t.Errorf("nothing shows %q: write a transcript in %s and name its number", cause, transcriptsFolder)
		}
		for _, m := range inQuotes.FindAllStringSubmatch(cells[6], -1) {
			if _, found := simulated[m[1]]; !found {
				t.Errorf("%q is simulated by %s, which is no cause of %s", cause, m[1], causesFile)
			}
			simulated[m[1]] = true
		}
	}
	for name, named := range simulated {
		if !named {
			t.Errorf("the simulator's cause %s is in no row of %s §6a", name, protocolPage)
		}
	}
	if rows < fewestCauses || len(simulated) == 0 {
		t.Errorf("found %d rows and %d simulated causes, want at least %d and some: has the form of the table changed?",
			rows, len(simulated), fewestCauses)
	}
}

// transcriptNumbers are those with which the names of the transcripts begin.
func transcriptNumbers(t *testing.T, root fs.FS) (out []string) {
	t.Helper()
	files, err := fs.ReadDir(root, transcriptsFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		n, _, _ := strings.Cut(f.Name(), "_")
		out = append(out, n)
	}
	return out
}

// testNames are all tests of the tree.
func testNames(t *testing.T, root fs.FS) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path.Base(name), "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
