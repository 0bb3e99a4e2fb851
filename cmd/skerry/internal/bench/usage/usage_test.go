package usage_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/usage"
)

// What /proc and the clocks of the kernel say of a process is taken from this one, whose
// time the system tells otherwise, too.
func TestTimeAndMemoryOfAProcess(t *testing.T) {
	before := selfCPU(t)
	cpu, err := usage.CPU(os.Getpid())
	if after := selfCPU(t); err != nil || cpu < before || cpu > after {
		t.Errorf("got %v, %v, want %v to %v", cpu, err, before, after)
	}
	if mib, err := usage.Peak(os.Getpid()); err != nil || mib < 1 || mib > 1<<20 {
		t.Errorf("got %v MiB, %v", mib, err)
	}
	if mib, err := usage.Resident(os.Getpid()); err != nil || mib < 1 || mib > 1<<20 {
		t.Errorf("got %v MiB, %v", mib, err)
	}
	if n, err := usage.Files(os.Getpid()); err != nil || n < 3 {
		t.Errorf("got %v files, %v; want at least the standard ones", n, err)
	}
	if _, err := usage.CPU(1 << 22); err == nil { // above the highest id of a process
		t.Error("a process that is not there has used time")
	}
}

// The time of a process while nothing ran is no less than none, and an error of what ran is told.
func TestTimeWhileSomethingRan(t *testing.T) {
	used, err := usage.During(os.Getpid(), func() error { return nil })
	if err != nil || used < 0 {
		t.Errorf("got %v, %v", used, err)
	}
	if _, err := usage.During(os.Getpid(), func() error { return os.ErrClosed }); err != os.ErrClosed {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}

func selfCPU(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}
