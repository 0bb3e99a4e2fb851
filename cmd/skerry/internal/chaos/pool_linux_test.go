package chaos

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPool: memory is not filled without a bound.
func TestPool(t *testing.T) {
	t.Parallel()
	const shm = "/dev/shm"
	var is unix.Statfs_t
	if err := unix.Statfs(shm, &is); err != nil || is.Type != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs at ", shm)
	}
	if got := pool(shm); got != "tmpfs" {
		t.Errorf("%s is on %q", shm, got)
	}
	if got := pool("/proc"); got != "" {
		t.Errorf("/proc is on %q", got)
	}
	_, _, stderr := chaos(t, t.Context(), "--faults", "disk", "--disk-path", shm)
	if !strings.Contains(stderr, "want no tmpfs, which shares its room") {
		t.Error(stderr)
	}
}
