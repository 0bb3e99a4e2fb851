package launcher

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// builds are programs that all tests of this package share.
var builds testkit.Builds

// testsAtOnce is how many tests run at a time: they wait for trainers more than they compute.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	for _, name := range []string{"SKERRY_LIGHTHOUSE", "TORCHFT_LIGHTHOUSE"} {
		_ = os.Unsetenv(name) // the jobs have lighthouses of their own
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := builds.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}))
}

// run starts skerry run with some arguments.
func run(t *testing.T, args ...string) *testkit.Program {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	return testkit.Start(t, "skerry run", nil, append([]string{builds.Path(t, "cmd/skerry"), "run"}, args...)...)
}

// started is what the launcher logs of the start of a replica.
var started = regexp.MustCompile(`replica started attempt=(\d+) pids=\[([0-9,]+)\] replica_id=(\S+)`)

// pid waits for a start of a replica, and returns the process id of one of its ranks.
func pid(t *testing.T, p *testkit.Program, replica string, attempt, rank int) (pid int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("attempt %d of %s", attempt, replica), func() bool {
		for _, m := range started.FindAllStringSubmatch(p.String(), -1) {
			if m[1] == strconv.Itoa(attempt) && m[3] == replica {
				pid, _ = strconv.Atoi(strings.Split(m[2], ",")[rank]) // digits
			}
		}
		return pid != 0
	})
	return pid
}

// endLine is what the trainer of the digits says when it has had its steps.
var endLine = regexp.MustCompile(`(replica-\d) \| step 600: test accuracy ([0-9.]+), sha256 ([0-9a-f]+)`)

// A rank of three is killed with SIGKILL, twice: its replica alone starts again, heals from
// the others, and all end with the same bytes. The second crash is one more than the budget
// has, but for the steps that the replica has committed since the first.
func TestTrainerIsStartedAgain(t *testing.T) {
	t.Parallel()
	p := run(t, "--replicas=3", "--max-restarts=1", "--refill-steps=20", "--", builds.Path(t, "examples/digits/trainer"), "-steps=600", "-step-time=20ms", "-linger=1h")
	for attempt, step := range []string{"100", "450"} {
		p.Says("replica-1 | step "+step+": ", 0)
		from := len(p.String())
		if err := syscall.Kill(pid(t, p, "replica-1", attempt, 0), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.Says("replica-1 | healed ", p.Says("replica crashed, and starts again", from))
	}
	for i, from := 0, 0; i < 3; i++ {
		from = p.Says(": test accuracy ", from)
	}
	p.Signal(syscall.SIGTERM) // they stay for those who are late until they are told to leave
	status, text := p.Exits(), p.String()
	ends := endLine.FindAllStringSubmatch(text, -1)
	hashes := make(map[string]bool)
	for _, m := range ends {
		hashes[m[3]] = true
		if m[2] < "0.95" {
			t.Errorf("%s has learnt %s, want 0.95", m[1], m[2])
		}
	}
	if status != 0 || len(ends) != 3 || len(hashes) != 1 {
		t.Errorf("status %d, %d ends with the hashes %v, want 0, 3 and one\n%s", status, len(ends), hashes, text)
	}
	for _, want := range []string{"replicas: 3 done; restarts: 2;", "replica-1 rank 0 (pid ", "killed by SIGKILL"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if n := len(started.FindAllString(text, -1)); n != 5 {
		t.Errorf("%d starts, want 5", n)
	}
}

// SIGTERM drains all replicas, which is a good end.
func TestTrainersDrain(t *testing.T) {
	t.Parallel()
	p := run(t, "--replicas=2", "--grace=1m", "--", builds.Path(t, "examples/digits/trainer"), "-steps=100000", "-step-time=20ms")
	p.Says("step 50: ", p.Says("step 50: ", 0))
	p.Signal(syscall.SIGTERM)
	if status, text := p.Exits(), p.String(); status != 0 || strings.Count(text, "draining: ") != 2 || !strings.Contains(text, "replicas: 2 done; restarts: 0") {
		t.Errorf("status %d\n%s", status, text)
	}
}
