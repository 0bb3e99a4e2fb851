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
	t                  *testing.T
	image, device, dir string
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
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 256<<20), os.Mkdir(d.dir, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run("mkfs.ext4", "-q", "-F", d.image); err != nil {
		t.Skipf("no ext4 (Debian: e2fsprogs): %v", err)
	}
	if err := d.attach(); err != nil {
		t.Skipf("no loop device: %v", err)
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

// attach gives the disk a device, until the test ends.
func (d *disk) attach() error {
	device, err := run("losetup", "-f", "--show", d.image)
	if err != nil {
		return err
	}
	d.device = device
	d.t.Cleanup(func() { // a device that is mounted goes with its mount
		if _, err := run("losetup", "-d", device); err != nil {
			d.t.Error(err)
		}
	})
	return nil
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

// mend puts another disk in the place of this one, with what was written to it. Of this
// one the kernel may not let go for long: a process that another test starts in a mount
// namespace of its own (ip netns exec makes one) keeps all that was mounted by then.
func (d *disk) mend() {
	d.t.Helper()
	if err := unix.Unmount(d.dir, 0); err != nil {
		d.t.Fatalf("unmount %s: %v", d.dir, err)
	}
	failed := d.image
	d.image += " mended"
	if _, err := run("cp", "--sparse=always", failed, d.image); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("fsck.ext4", "-fy", d.image).CombinedOutput(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() > 1 { // 1: it has mended something
			d.t.Fatalf("fsck.ext4: %v\n%s", err, out)
		}
	}
	if err := d.attach(); err != nil {
		d.t.Fatal(err)
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
	const says = "disk failed: this server takes no part until it can be written"
	for _, leads := range []bool{false, true} {
		leader, term := j.leaderAfter(0) // of this moment: it may have changed on a busy machine
		bad := leader
		if !leads {
			bad = (leader + 1) % servers
		}
		disks[bad].fail()
		for _, p := range j.members {
			goesOn(p)
		}
		from := j.members[0].Len()
		j.replace(1) // the ledger is written: a leader whose disk fails steps down
		j.members[0].Says("read-only file system", from)
		if leads {
			if next, _ := j.leaderAfter(term); next == bad {
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
