package launcher

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Lines of testdata/gloo.py.
var (
	goesOn  = regexp.MustCompile(`replica-1:1 \| start 1: rank 1 of 2 goes on from step (\d+)`)
	weights = regexp.MustCompile(`\| start \d: rank \d ends, weights ([0-9a-f]+)`)
)

// A program of PyTorch's own, over its own Gloo and its own DDP, that knows the environment
// variables alone, trains before and after one of its ranks was killed: the ranks meet
// anew, go on from the checkpoint, and end with the weights of the replica that lived.
// It needs a Python with torch, whose path SKERRY_PYTHON has.
func TestGlooTrainsBeforeAndAfterAKill(t *testing.T) {
	t.Parallel()
	python := os.Getenv("SKERRY_PYTHON")
	if python == "" {
		t.Skip("SKERRY_PYTHON names no Python with torch")
	}
	if text, err := exec.CommandContext(t.Context(), python, "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("%s has no torch: %v\n%s", python, err, text)
	}
	p := run(t, "--replicas=2", "--nproc_per_node=2", "--max_restarts=1", "--no-python", "--", python, "testdata/gloo.py", t.TempDir(), "200")
	p.Says("replica-1:1 | start 0: rank 1 step 20 ", 0)
	if err := syscall.Kill(pid(t, p, "replica-1", 0, 1), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status, text := p.Exits(), p.String()
	from := goesOn.FindStringSubmatch(text)
	if from == nil {
		t.Fatalf("status %d, and replica-1 did not go on\n%s", status, text)
	}
	if step, _ := strconv.Atoi(from[1]); step < 10 || step >= 200 { // digits
		t.Errorf("it went on from step %d, want a checkpoint of the first start", step)
	}
	all := make(map[string]bool)
	ends := weights.FindAllStringSubmatch(text, -1)
	for _, m := range ends {
		all[m[1]] = true
	}
	if status != 0 || len(ends) != 4 || len(all) != 1 || strings.Contains(text, "replica-0:0 | start 1") {
		t.Errorf("status %d, %d ends with the weights %v, want 0, 4 and one, and no second start of replica-0\n%s", status, len(ends), all, text)
	}
}
