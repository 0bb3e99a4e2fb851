package main

import (
	"os"
	"regexp"
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

var end = regexp.MustCompile(`step 200: (y = .*)`)

// Three replicas fit the line; one is killed, comes back and heals, and one is drained and
// comes back. All that end have the same line.
func TestOwn(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	start := func(name string) *testkit.Program {
		return testkit.Start(t, name, []string{asProgram + "=1", "SKERRY_LIGHTHOUSE=" + house.Addr, "REPLICA_GROUP_ID=" + name}, os.Args[0])
	}
	a, b, c := start("a"), start("b"), start("c")
	a.Says("step 50, 3 replicas", 0)
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
		if status != 0 || m == nil {
			t.Errorf("status %d\n%s", status, text)
			continue
		}
		lines[m[1]] = true
	}
	if len(lines) != 1 || !lines["y = 3.000 x + -1.000"] {
		t.Errorf("the replicas end with %v, want y = 3.000 x + -1.000 of all", lines)
	}
}
