package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

func pythonHere(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("no Python is here: %v", err)
	}
	return path
}

// Python on the pages is Python.
func TestPythonCompiles(t *testing.T) {
	t.Parallel()
	interpreter := pythonHere(t)
	for _, page := range pages(t) {
		fenced, _ := blocks(t, page)
		for _, b := range fenced {
			if b.lang != "python" {
				continue
			}
			compile := exec.CommandContext(t.Context(), interpreter, "-c", "import sys; compile(sys.stdin.read(), sys.argv[1], 'exec')", page)
			compile.Stdin = strings.NewReader(strings.Repeat("\n", b.line-1) + b.text())
			if out, err := compile.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
			}
		}
	}
}

// TestPython runs the program of docs/PYTHON.md as the page has it: in two replicas, of which one is
// killed and started again. It wants torch and libskerry: scripts/python-test has both.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains with torch")
	}
	t.Parallel()
	interpreter := pythonHere(t)
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", "import torch, skerry").CombinedOutput(); err != nil {
		t.Skipf("this Python has not got torch and skerry: %s", strings.TrimSpace(string(out)))
	}
	p := newPlace(t)
	fenced, _ := blocks(t, "docs/PYTHON.md")
	i := 0
	for fenced[i].lang != "python" {
		i++
	}
	program := filepath.Join(p.dir, "train.py")
	if err := os.WriteFile(program, []byte(p.away.Replace(fenced[i].text())), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start("lighthouse", "lighthouse --bind 127.0.0.1:29510", true).Says(serves, 0)
	train := func(name string) *testkit.Program {
		return testkit.Start(t, name, append(p.env, "REPLICA_GROUP_ID="+name), interpreter, program)
	}
	a, b := train("a"), train("b")
	const together = " 2 " // step, participants, loss
	at := a.Says(together, 0)
	b.Kill()
	at = a.Says(" 1 ", at)
	b = train("b")
	at = a.Says(together, at)
	b.Says(together, 0)
	a.Says(together, at)
}
