package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fragment is what a Go block of a page lacks to be compiled: it is part of a program.
type fragment struct {
	page, begins string // which block: its first line
	imports      string // packages of this module, and others, by space
	before       string // declarations in front of it
	inside       string // what a function has in front of it; empty: the block stands at top level
}

var fragments = []fragment{
	{
		page: "README.md", begins: "m, err := manager.New(manager.Config{",
		imports: "context manager pg/tcp checkpoint train/ddp train/optim",
		before: `type network struct{}
func (network) Learn(batch []int, ready func(int)) float64 { return 0 }
var (
	model network
	save  func() checkpoint.State
	load  func(checkpoint.State) error
	grads []ddp.Param
	sgd   optim.Optimizer
	batch []int
	steps int64
)`,
		inside: "ctx := context.Background()",
	},
	{
		page: "docs/TRAINING.md", begins: "p, err := m.WaitParticipants(ctx)                       // err: see below",
		imports: "context manager train/sampler train/ddp",
		before: `type network struct{}
func (network) Learn(rows []int, ready func(int)) float64 { return 0 }
type sgd struct{}
func (sgd) Step() {}
var (
	model     network
	m         *manager.Manager
	rows      *sampler.Elastic
	red       *ddp.Reducer
	optimizer sgd
)`,
		inside: "ctx := context.Background()",
	},
	{page: "docs/BABY.md", begins: "func main() {", imports: "pg pg/tcp pg/baby"},
	{page: "docs/NCCL.md", begins: "func main() {", imports: "pg pg/tcp pg/baby nccl", before: "var order *nccl.Order"},
}

// unused is what the compiler says of a fragment that does nothing with what it got, as fragments may.
var unused = regexp.MustCompile(`declared and not used|imported and not used`)

// Go on the pages compiles against this module.
func TestGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	overlay := make(map[string]string)
	where := make(map[string]block)
	used := make([]bool, len(fragments))
	var packages []string
	for _, page := range pages(t) {
		fenced, _ := blocks(t, page)
		for _, b := range fenced {
			if b.lang != "go" {
				continue
			}
			i := fragmentOf(b)
			if i < 0 {
				t.Errorf("%s:%d: Go that this test cannot compile: give it an entry in fragments_test.go", b.page, b.line)
				continue
			}
			used[i] = true
			name := fmt.Sprintf("page%d", len(packages))
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, []byte(fragments[i].source(b)), 0o600); err != nil {
				t.Fatal(err)
			}
			here, err := filepath.Abs(filepath.Join(name, "page.go"))
			if err != nil {
				t.Fatal(err)
			}
			overlay[here], where[name] = file, b
			packages = append(packages, "./"+name)
		}
	}
	for i, ok := range used {
		if !ok {
			t.Errorf("%s has no Go block %q any more: take its entry out of fragments_test.go", fragments[i].page, fragments[i].begins)
		}
	}
	compile(t, dir, overlay, where, packages)
}

func fragmentOf(b block) int {
	for i, f := range fragments {
		if f.page == b.page && f.begins == b.lines[0] {
			return i
		}
	}
	return -1
}

// source is the file in which the block is compiled. Its lines have the page's numbers.
func (f fragment) source(b block) string {
	var s strings.Builder
	s.WriteString("package page\n\nimport (\n")
	for _, p := range strings.Fields(f.imports) {
		if _, err := os.Stat(filepath.Join(root, p)); err == nil {
			p = "github.com/skerry-ft/skerry/" + p
		}
		fmt.Fprintf(&s, "\t%q\n", p)
	}
	fmt.Fprintf(&s, ")\n\n%s\n\n", f.before)
	if f.inside != "" {
		fmt.Fprintf(&s, "func _() {\n%s\n", f.inside)
	}
	fmt.Fprintf(&s, "//line %s:%d\n%s", b.page, b.line, b.text())
	if f.inside != "" {
		s.WriteString("}\n")
	}
	return s.String()
}

// compile has the compiler read packages that are nowhere but in an overlay.
func compile(t *testing.T, dir string, overlay map[string]string, where map[string]block, packages []string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"build", "-gcflags=-e", "-overlay", file}, packages...)
	said, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err == nil {
		return
	}
	wrong := false
	for l := range strings.Lines(string(said)) {
		if !strings.HasPrefix(l, "# ") && !unused.MatchString(l) {
			t.Error(strings.TrimSpace(l))
			wrong = true
		}
	}
	if !wrong && !unused.Match(said) {
		t.Errorf("go %v: %v\n%s", args, err, said)
	}
}
