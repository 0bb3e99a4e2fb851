package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/repair"
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

// The disk of a running server is full: the ledger is written on, because the log has
// its space in advance, and a snapshot fails with an error that says why and leaves no
// part of itself. With space again all is as before, also after a restart.
func TestDiskFullUnderRunning(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills a file system: not with -short")
	}
	disk := smallDisk(t, "80m")
	durable := func(cfg *Config) { cfg.DataDir = filepath.Join(disk, "data") }
	n := startNode(t, durable)
	l := leads(t, n)
	fillLedger(t, l, 1)
	giveBack := fill(t, disk)
	fillLedger(t, l, 5)
	if first, err := compact(l); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a snapshot on a full disk: log from %d, %v; want an error that says why", first, err)
	}
	giveBack()
	if _, err := compact(l); err != nil {
		t.Errorf("a snapshot with space again: %v", err)
	}
	if parts, err := filepath.Glob(filepath.Join(disk, "data", "snapshots", "*.tmp")); err != nil || len(parts) > 0 {
		t.Errorf("parts of a snapshot are left: %q, %v", parts, err)
	}
	before, highest := ledgerText(l), l.Job("filler", 0).HighestID
	n.stop()
	l = leads(t, startNode(t, durable))
	if err := same(withoutIDs(before), withoutIDs(ledgerText(l))); err != nil {
		t.Error("after a restart: ", err)
	}
	testkit.EventuallyNil(t, "ids rise after a restart", func() error { // with the new leader's first command
		if next := l.Job("filler", 0).HighestID; next <= highest {
			return fmt.Errorf("they go on above %d, before it they were up to %d", next, highest)
		}
		return nil
	})
}

// Entries are taken back, as from a follower whose leader has others, while the disk is full. With
// space again the log takes them back and goes on, without a restart.
func TestEntriesAreTakenBackAfterAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "8m")
	log, err := wal.Open(disk, wal.WithSegmentSize(1<<20), wal.WithSegmentFiler(repair.Filer(disk)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		if err := log.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: []byte("old")}); err != nil {
			t.Fatal(err)
		}
	}
	giveBack := fill(t, disk)
	for range 3 {
		if err := log.DeleteRange(6, 10); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("on a full disk: %v, want an error that says so", err)
		}
	}
	giveBack()
	if err := log.DeleteRange(6, 10); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	if err := log.StoreLog(&raft.Log{Index: 6, Term: 2, Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if last, err := log.LastIndex(); err != nil || last != 6 {
		t.Errorf("the log goes to %d, %v; want 6", last, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
