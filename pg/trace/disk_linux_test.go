package trace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg/trace"
)

// A dump that a full or a read-only disk does not take is an error that says why,
// and leaves no part of a file; the group goes on without.
func TestFilesOnABadDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	for _, c := range []struct {
		flags uintptr
		want  string
	}{
		{0, "no space left on device"},
		{unix.MS_RDONLY, "read-only file system"},
	} {
		dir := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", c.flags, "size=8k"); err != nil {
			t.Skipf("mount tmpfs: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		d := trace.Dump{Version: trace.Version, Group: "dp", ReplicaIDs: []string{"a"}, Cause: strings.Repeat("x", 16<<10)}
		err := trace.Files(dir + "/")(d)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%v, want %q in it", err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
