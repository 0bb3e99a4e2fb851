// Package usage is what another process of this host has used: its time and its memory, as Linux
// counts them.
package usage

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the time that a process has used, its user and system time.
//
// Source: clock_getcpuclockid(3), and MAKE_PROCESS_CPUCLOCK of Linux.
func CPU(pid int) (time.Duration, error) {
	const sched = 2 // the clock of both times
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &t)
	return time.Duration(t.Nano()), err
}

// During is the time that a process has used while f ran.
func During(pid int, f func() error) (time.Duration, error) {
	before, err := CPU(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := CPU(pid)
	return after - before, err
}

// Files is how many files a process has open, sockets included.
func Files(pid int) (int, error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all), err
}

// Peak is the most that a process had in memory so far, in MiB.
func Peak(pid int) (float64, error) { return memory(pid, "VmHWM") }

// Resident is what a process has in memory now, in MiB.
func Resident(pid int) (float64, error) { return memory(pid, "VmRSS") }

func memory(pid int, what string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\n"+what+":")
	var kib float64
	_, err = fmt.Sscan(rest, &kib)
	return kib / 1024, err
}
