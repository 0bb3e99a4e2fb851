package lighthouse_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// smallDisk is a file system of that size, mounted for the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes what is left of a file system, and returns what gives it back.
func fill(t *testing.T, dir string) func() {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of a running server is full: what stands stands, and the
// ledger is written on, because the log has its space in advance, and a snapshot fails with an error that says why
// and leaves no part of itself. With space again all is as before, also after a
// restart.
func TestDiskFullUnderRunning(t *testing.T) {
	t.Parallel()
	long(t)
	disk := smallDisk(t, "80m")
	durable := func(c *lighthouse.Config) { c.DataDir = filepath.Join(disk, "data") }
	l := lighthousetest.Start(t, durable)
	_, before := form(t, l.Addr, "a", "b")
	giveBack := fill(t, disk)
	if err := l.Lighthouse.FillLedger(5); err != nil {
		t.Errorf("changing rules on a full disk: %v", err)
	}
	status, err := l.Lighthouse.Status(t.Context())
	if err != nil || len(status.Jobs) == 0 || status.Jobs[0].QuorumID != before.ID || !status.Jobs[0].Stands {
		t.Errorf("on a full disk: %+v, %v; want quorum %d to stand", status.Jobs, err, before.ID)
	}
	if first, err := l.Lighthouse.Compact(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a snapshot on a full disk: log from %d, %v; want an error that says why", first, err)
	}
	giveBack()
	if _, err := l.Lighthouse.Compact(); err != nil {
		t.Errorf("a snapshot with space again: %v", err)
	}
	if parts, err := filepath.Glob(filepath.Join(disk, "data", "snapshots", "*.tmp")); err != nil || len(parts) > 0 {
		t.Errorf("parts of a snapshot are left: %q, %v", parts, err)
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	l = lighthousetest.Start(t, durable)
	if _, after := form(t, l.Addr, "d"); after.ID <= before.ID || after.Cluster != before.Cluster {
		t.Errorf("quorum %d of %s after a restart, want one above %d of %s", after.ID, after.Cluster, before.ID, before.Cluster)
	}
}
