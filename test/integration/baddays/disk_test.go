package baddays

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system of its own, which becomes read-only as one does whose
// device has failed: the kernel remounts it, though files are open for writing.
type disk struct {
	t           *testing.T
	device, dir string
}

// run runs a command of the machine's.
func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// newDisk makes one and mounts it, or skips the test and says what this machine cannot do.
func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk that fails takes root: sudo go test -run " + t.Name() + " ./test/integration/baddays")
	}
	image := filepath.Join(t.TempDir(), "image")
	d := &disk{t: t, dir: filepath.Join(t.TempDir(), "disk")}
	err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 256<<20), os.Mkdir(d.dir, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if d.device, err = run("losetup", "-f", "--show", image); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	t.Cleanup(func() {
		if _, err := run("losetup", "-d", d.device); err != nil {
			t.Error(err)
		}
	})
	if _, err := run("mkfs.ext4", "-q", "-F", d.device); err != nil {
		t.Skipf("no ext4 (Debian: e2fsprogs): %v", err)
	}
	d.mount()
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(d.trigger()); err != nil {
		t.Skipf("this kernel makes no error of ext4 to order: %v", err)
	}
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	if err := unix.Mount(d.device, d.dir, "ext4", 0, "errors=remount-ro"); err != nil {
		d.t.Fatalf("mount %s: %v", d.device, err)
	}
}

func (d *disk) trigger() string {
	return filepath.Join("/sys/fs/ext4", filepath.Base(d.device), "trigger_fs_error")
}

// fail makes the disk read-only.
func (d *disk) fail() {
	d.t.Helper()
	if err := os.WriteFile(d.trigger(), []byte("1"), 0o200); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "probe"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		d.t.Fatalf("a write to a disk that has failed: %v, want %v", err, unix.EROFS)
	}
}

// mend checks the disk, which no process uses any more, and mounts it again.
func (d *disk) mend() {
	d.t.Helper()
	if err := unix.Unmount(d.dir, 0); err != nil {
		d.t.Fatalf("unmount %s: %v", d.dir, err)
	}
	if out, err := exec.Command("fsck.ext4", "-fy", d.device).CombinedOutput(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() > 1 { // 1: it has mended something
			d.t.Fatalf("fsck.ext4: %v\n%s", err, out)
		}
	}
	d.mount()
}

// The disk of a server that runs becomes read-only, first one that follows, then the
// leader's: all train on, replicas come and go, the server says once that it takes no part,
// and ends when it is told to; with its disk mended it is a server again. A trainer that
// cannot write its trace dumps says so and trains on.
func TestDisksBecomeReadOnly(t *testing.T) {
	t.Parallel()
	const trainers = 2
	j := newJob(t, build(t))
	disks := make([]*disk, servers)
	for i := range disks {
		disks[i] = newDisk(t)
		j.data[i] = filepath.Join(disks[i].dir, "data")
	}
	traces := readOnly(t)
	j.env = []string{"SKERRY_TRACE_BUFFER_SIZE=100", "SKERRY_TRACE_DUMP_ON_ERROR=1", "SKERRY_TRACE_DUMP_FILE=" + filepath.Join(traces, "rank")}
	j.startServers()
	j.train(trainers)
	leader, term := j.leaderAfter(0)
	const says = "disk failed: this server takes no part until it can be written"
	for _, bad := range []int{(leader + 1) % servers, leader} {
		disks[bad].fail()
		for _, p := range j.members {
			goesOn(p)
		}
		from := j.members[0].Len()
		j.replace(1) // the ledger is written: a leader whose disk fails steps down
		j.members[0].Says("read-only file system", from)
		if bad == leader {
			if leader, term = j.leaderAfter(term); leader == bad {
				t.Errorf("server %d leads with a read-only disk", bad)
			}
			j.servers[bad].Says(says, 0) // as soon as there is a term to write down
		}
		j.servers[bad].Signal(syscall.SIGTERM)
		if status := j.servers[bad].Exits(); status != 0 {
			t.Errorf("a server with a read-only disk ends with status %d", status)
		}
		if text := j.servers[bad].String(); strings.Count(text, says) > 1 {
			t.Errorf("server %d says %d times that its disk has failed", bad, strings.Count(text, says))
		}
		j.startServer(bad)
		j.servers[bad].EndsIn("read-only file system", disks[bad].dir) // until the disk is mended
		disks[bad].mend()
		j.startServer(bad)
		j.serves(bad)
	}
	j.replace(0)
	j.idsRise(j.members...)
}

// readOnly is a folder that nobody can write to.
func readOnly(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "read-only")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
