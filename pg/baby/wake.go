package baby

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), which golang.org/x/sys does not name. They are not the
// private ones: the word lies in memory of two processes.
const (
	futexWait = 0
	futexWake = 1
)

// maxSleep bounds one sleep: a child out of its mind can write over the word
// that a wake-up is told by, and must not keep our thread from ending.
const maxSleep = time.Second

// sleep waits until the other side calls wake, or maxSleep has passed. It
// returns at once if *word is not 1 any more. The kernel is asked without Go's
// poller in between: that halves the time of a wake-up, for a thread.
func sleep(word *atomic.Uint32) {
	limit := unix.NsecToTimespec(int64(maxSleep))
	// Every error means: look again.
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, 1,
		uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// wake ends the sleep of the one who sleeps on word, if somebody does. It never
// waits, whatever the other side has made of the word.
func wake(word *atomic.Uint32) {
	if word.Swap(0) == 0 {
		return
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}

// yield lets another thread of this processor run, if one wants to.
func yield() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
