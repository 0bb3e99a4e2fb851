package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// starving is a cgroup whose processes get little of a processor.
type starving struct {
	dir, file string
}

// share is what they get: 4 ms of each 100 ms.
const share, period = 4000, 100_000

// newStarving makes one (of version 2, else 1), or says what this machine cannot do.
func newStarving(t *testing.T) (*starving, error) {
	t.Helper()
	name := ownName(ownPrefix)
	var problems []error
	for _, s := range []*starving{
		{dir: "/sys/fs/cgroup/" + name, file: "cpu.max"},
		{dir: "/sys/fs/cgroup/cpu/" + name, file: "cpu.cfs_quota_us"},
	} {
		if err := os.Mkdir(s.dir, 0o755); err != nil {
			problems = append(problems, err)
			continue
		}
		t.Cleanup(func() { // after the cluster's processes, which are started later
			if err := os.Remove(s.dir); err != nil {
				t.Error(err)
			}
		})
		err := s.limit(share)
		if err == nil {
			return s, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("no cgroup with a share of a processor: %w", errors.Join(problems...))
}

// limit sets how much of each period they get; -1: all that there is.
func (s *starving) limit(quota int) error {
	text := strconv.Itoa(quota)
	if s.file == "cpu.max" {
		text = strings.Replace(text, "-1", "max", 1) + " " + strconv.Itoa(period)
	}
	return s.write(s.file, text)
}

// write writes to a file that the kernel has made in the cgroup.
func (s *starving) write(name, text string) error {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// A replica gets a twenty-fifth of a processor for a while: the others go on, and it takes part
// again when it gets its own.
func TestStarved(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("chaos scenarios take seconds each: run without -short")
	}
	t.Parallel()
	group, err := newStarving(t)
	if err != nil {
		t.Skip(err)
	}
	c := start(t, options{steps: 250})
	c.awaitStep(10)
	if err := group.write("cgroup.procs", strconv.Itoa(c.trainers[1].PID())); err != nil {
		t.Fatal(err)
	}
	c.awaitMore(40, 0)
	if err := group.limit(-1); err != nil {
		t.Fatal(err)
	}
	c.awaitMore(5, 1)
	c.finish()
}

// fill puts a file into a folder until nothing more fits.
func fill(t *testing.T, dir string) (remove func()) {
	t.Helper()
	path := filepath.Join(dir, "full")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill %s: %v", dir, err)
		}
		err = nil
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// The folder of checkpoints is full for a while: none is kept, and no step is lost by it. When
// there is room again they are kept again, and a run goes on from one.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 250, checkpointEvery: 10, smallDisk: true})
	c.await("a checkpoint is kept", func() bool { return c.count(kept) > 0 })
	remove := fill(t, c.disk)
	before := c.count(notKept)
	c.await("a checkpoint is not kept", func() bool { return c.count(notKept) > before })
	c.awaitMore(10)
	remove()
	keeps := c.count(kept)
	c.await("a checkpoint is kept again", func() bool { return c.count(kept) > keeps })
	c.kill(2)
	c.awaitMore(5)
	c.startTrainer(2)
	c.awaitMore(5, 2)
	c.finish()
}

// smallDisk mounts a file system of a few megabytes, or skips the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := newDisk(t, 16)
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// newDisk mounts a file system of some MiB, or says what this machine cannot do.
func newDisk(t *testing.T, mib int) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount(ownName(ownPrefix), dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		return "", fmt.Errorf("a file system of its own needs the right to mount: %w", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, nil
}

// tight is a cgroup whose processes have little memory.
type tight struct {
	dir string
}

// tightBytes is more than a replica has, and less than a replica and another process that
// takes what there is.
const tightBytes = 96 << 20

// newTight makes one (of version 2, else 1), or says what this machine cannot do.
func newTight(t *testing.T) (*tight, error) {
	t.Helper()
	var problems []error
	for _, v := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		c := &tight{dir: filepath.Join(v.root, ownName(ownPrefix))}
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			problems = append(problems, err)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(c.dir); err != nil {
				t.Error(err)
			}
		})
		err := c.write(v.limit, tightBytes)
		if err == nil {
			return c, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("no cgroup with a limit of memory: %w", errors.Join(problems...))
}

// write writes to a file that the kernel has made in the cgroup.
func (c *tight) write(name string, value int64) error {
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, value)
	return errors.Join(err, f.Close())
}

// exhaust has the kernel end a process, because another one in its cgroup takes what memory
// there is: what tail keeps of a file that has no lines.
func (c *tight) exhaust(pid int) error {
	first := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o600)
	if err := errors.Join(first, c.write("cgroup.procs", int64(pid))); err != nil {
		return err
	}
	_ = exec.Command("sh", "-c", fmt.Sprintf("echo $$ >%s/cgroup.procs && head -c %d /dev/zero | tail >/dev/null", c.dir, 2*tightBytes)).Run() // killed, as a rule
	return nil
}
