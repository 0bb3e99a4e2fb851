package baddays

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// cgroup is one of the test's own, with a limit of memory.
type cgroup struct {
	t   *testing.T
	dir string
}

// newCgroup makes one (of version 2, else 1), or skips the test and says what this machine cannot do.
func newCgroup(t *testing.T, limit int64) *cgroup {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a cgroup takes root: sudo go test -run " + t.Name() + " ./test/integration/baddays")
	}
	var problems []error
	for _, v := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		c := &cgroup{t: t, dir: filepath.Join(v.root, fmt.Sprintf("skerry-%08x", rand.Uint32()))}
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			problems = append(problems, err)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(c.dir); err != nil {
				t.Error(err)
			}
		})
		err := c.write(v.limit, limit)
		if err == nil {
			return c
		}
		problems = append(problems, err)
	}
	t.Skipf("no cgroup with a limit of memory can be made here: %v", errors.Join(problems...))
	return nil
}

// write writes to a file that the kernel has made in the cgroup.
func (c *cgroup) write(name string, value int64) error {
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, value)
	return errors.Join(err, f.Close())
}

// take moves a process into the cgroup.
func (c *cgroup) take(pid int) {
	c.t.Helper()
	if err := c.write("cgroup.procs", int64(pid)); err != nil {
		c.t.Fatal(err)
	}
}

// A trainer's cgroup is out of memory in mid-run, and the kernel ends the trainer: that
// is a death like any other. The others go on within seconds, and it comes back and heals.
func TestTrainerOutOfMemory(t *testing.T) {
	t.Parallel()
	const trainers, victim, limit = 3, 1, 96 << 20
	j := newJob(t, build(t))
	c := newCgroup(t, limit)
	j.startServers()
	j.train(trainers)
	p := j.members[victim]
	c.take(p.PID())
	first := []byte("1000") // of all in the cgroup the kernel ends the trainer
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID()), first, 0o600); err != nil {
		t.Fatal(err)
	}
	from := j.members[0].Len()
	// What else runs there takes what there is: what tail keeps of a file that has no lines.
	hog := exec.Command("sh", "-c", fmt.Sprintf("echo $$ >%s/cgroup.procs && head -c %d /dev/zero | tail", c.dir, 2*limit))
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	_ = hog.Wait() // killed, as a rule
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); !ok || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Fatalf("the trainer ended with %v, want the kernel's SIGKILL", p.Err())
	}
	for _, other := range []int{0, 2} {
		goesOn(j.members[other])
	}
	leader, _ := j.leaderAfter(0)
	j.servers[leader].Says(`WRN lost cause=`, 0)
	if text := j.servers[leader].String(); !strings.Contains(text, `reason="stream broke`) {
		t.Errorf("the death was not seen by the end of its connection:\n%s", text)
	}
	j.members[0].Says(" 2 of 2 members take part", from)
	j.replaceEnded(victim)
	j.idsRise(j.members[0], j.members[2])
}

// Servers and trainers whose Go runtime has far less memory than it would like collect
// garbage more often, and that is all.
func TestTightMemoryLimit(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	j := newJob(t, build(t))
	j.env, j.serverEnv = []string{"GOMEMLIMIT=8MiB"}, []string{"GOMEMLIMIT=8MiB"}
	j.startServers()
	j.train(2)
	_, term := j.leaderAfter(0)
	j.replace(1)
	leader, term := j.leaderAfter(term - 1)
	j.servers[leader].Kill()
	j.startServer(leader)
	j.leaderAfter(term)
	j.replace(0)
	j.idsRise(j.members...)
}

// A process that may not map the memory that it needs ends in a line that says so, and
// nobody else notices: Go's runtime cannot do without. TROUBLESHOOTING.md says not to use
// such a limit.
func TestNoAddressSpace(t *testing.T) {
	t.Parallel()
	j := newJob(t, build(t))
	j.startServers()
	j.train(2)
	at := j.members[0].Len()
	for _, program := range []string{"lighthouse", "trainer"} {
		p := testkit.Start(t, program, nil, "sh", "-c", "ulimit -v 65536; exec "+filepath.Join(j.bin, program))
		if status := p.Exits(); status == 0 {
			t.Errorf("%s ended with status 0", program)
		}
		if text := p.String(); !strings.Contains(text, "memory") {
			t.Errorf("%s ended and said %q, want why", program, text)
		}
	}
	if text := j.members[0].String(); strings.Contains(text[at:], "take part") {
		t.Errorf("the job noticed: %s", text[at:])
	}
	goesOn(j.members[0])
}
