package main

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// asProgram in the environment makes this test binary the program itself.
const asProgram = "OWN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var end = regexp.MustCompile(`step 200: (y = (\S+) x \+ (\S+))`)

// Three replicas fit the line; one is killed, comes back and heals, and one is drained and
// comes back. All that end have the same line, to the bit, and none that a replica would
// have found by itself.
func TestOwn(t *testing.T) {
	t.Parallel()
	// However late their processes begin, the first quorum is of all three.
	house := lighthousetest.Start(t, lighthousetest.AtLeast(3))
	start := func(name string) *testkit.Program {
		return testkit.Start(t, name, []string{asProgram + "=1", "SKERRY_LIGHTHOUSE=" + house.Addr, "REPLICA_GROUP_ID=" + name}, os.Args[0])
	}
	a, b, c := start("a"), start("b"), start("c")
	a.Says("step 50, 3 replicas", 0)
	house.SetAtLeast(t, 1)
	b.Signal(syscall.SIGKILL)
	b.Exits()
	b = start("b")
	c.Says("step 100, ", 0)
	c.Signal(syscall.SIGTERM)
	if status := c.Exits(); status != 0 {
		t.Errorf("the drained one ends with status %d\n%s", status, c)
	}
	c = start("c")
	lines := make(map[string]bool)
	for _, p := range []*testkit.Program{a, b, c} {
		status, text := p.Exits(), p.String()
		m := end.FindStringSubmatch(text)
		if status != 0 || m == nil || !near(t, m[2], 3) || !near(t, m[3], -1) {
			t.Errorf("status %d, want a line near y = 3 x + -1\n%s", status, text)
			continue
		}
		lines[m[1]] = true
	}
	for _, name := range []string{"a", "b", "c"} {
		if line := alone(name, steps).String(); lines[line] {
			t.Errorf("the replicas end with %s, which is what %s finds without the others", line, name)
		}
	}
	if len(lines) != 1 {
		t.Errorf("the replicas end with %v, want the same bits of all", lines)
	}
}

// near says whether a coefficient is about what the points were made with.
func near(t *testing.T, text string, want float64) bool {
	t.Helper()
	got, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Error(err)
	}
	return math.Abs(got-want) < 0.1
}

// alone is the job of a replica that averages with no other.
func alone(replica string, n int64) *job {
	j := &job{line: make([]float32, 2), grad: make([]float32, 2)}
	for j.taken < n {
		j.backward(replica)
		j.update()
	}
	return j
}

// Replicas whose names are as long and begin alike have points of their own, and one that
// comes back has those that it had.
func TestPointsOfEachReplica(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, name := range []string{"machine-1", "machine-2", "machine-3"} {
		first, again := alone(name+":6a0e", 5).String(), alone(name+":93d1", 5).String()
		if first != again {
			t.Errorf("%s comes back and has other points: %s, was %s", name, again, first)
		}
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have the same points", other, name)
		}
		seen[first] = name
	}
}
