package baby

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/step"
)

// Operations of futex(2), which golang.org/x/sys does not name. They are not the
// private ones: the word lies in memory of two processes.
const (
	futexWait = 0
	futexWake = 1
)

// sleep waits until the other side calls wake, or most has passed. It returns
// at once if *word is not 1 any more. The kernel is asked without Go's poller in
// between: that halves the time of a wake-up, for a thread.
func sleep(word step.Word32, most time.Duration) {
	if f, ok := word.Hook().(step.Futex); ok {
		f.Sleep(word.Addr(), 1)
		return
	}
	limit := unix.NsecToTimespec(int64(most))
	// Every error means: look again.
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word.Addr())), futexWait, 1,
		uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// Bounds of one sleep. A child out of its mind can write over the word that a
// wake-up is told by, and must not keep our threads from ending; and a goroutine
// that waits for an op looks so often whether its context has ended, or the op by
// another backend's doing.
const (
	maxSleep = time.Second
	minNap   = time.Millisecond
	maxNap   = 4 * time.Millisecond
)

// wake ends the sleep of the one who sleeps on word, if somebody does. It never
// waits, whatever the other side has made of the word.
func wake(word step.Word32) {
	if word.Swap(0) == 0 {
		return
	}
	if f, ok := word.Hook().(step.Futex); ok {
		f.Wake(word.Addr())
		return
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word.Addr())), futexWake, 1, 0, 0, 0)
}

// yield lets another thread of this processor run, if one wants to.
func yield() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
