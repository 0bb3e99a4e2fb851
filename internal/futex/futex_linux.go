package futex

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/step"
)

const (
	opWait      = 0
	opWake      = 1
	flagPrivate = 128 // of one process
	size32      = 2
)

// Sleep waits until Wake is called, or most has passed. It returns at once if the word
// is not 1, and for no reason now and then: look again.
func Sleep(word step.Word32, most time.Duration) {
	if f, ok := word.Hook().(step.Futex); ok {
		f.Sleep(word.Addr(), 1)
		return
	}
	limit := unix.NsecToTimespec(int64(most))
	// Every error means: look again.
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word.Addr())), opWait, 1,
		uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// Wake ends the Sleep on a word, if there is one, and makes the word 0.
func Wake(word step.Word32) {
	if word.Swap(0) == 0 {
		return
	}
	if f, ok := word.Hook().(step.Futex); ok {
		f.Wake(word.Addr())
		return
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word.Addr())), opWake, 1, 0, 0, 0)
}

// WaitPrivate waits until WakePrivate is called, if the word has that value.
func WaitPrivate(word *atomic.Uint32, value uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait|flagPrivate, uintptr(value), 0, 0, 0)
}

// WakePrivate wakes one thread of this process that waits for a word.
func WakePrivate(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake|flagPrivate, 1, 0, 0, 0)
}

// Waiter is a word of WaitAny, and the value that it has; the kernel's struct
// futex_waitv.
type Waiter struct {
	value, address  uint64
	flags, reserved uint32
}

// Private is a Waiter for a word that WakePrivate wakes.
func Private(word *atomic.Uint32, value uint32) Waiter {
	w := Shared(word, value)
	w.flags |= flagPrivate
	return w
}

// Shared is a Waiter for a word in memory of several processes. The caller keeps the
// memory mapped.
func Shared(word *atomic.Uint32, value uint32) Waiter {
	return Waiter{value: uint64(value), address: uint64(uintptr(unsafe.Pointer(word))), flags: size32}
}

// WaitAny waits until one of at most MaxAny words is woken, or a signal comes; not if a
// word has another value already. False means that the kernel has no such call (it is
// of Linux 5.16), or forbids it.
func WaitAny(words []Waiter) bool {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&words[0])), uintptr(len(words)), 0, 0, 0, 0)
	return errno == 0 || errno == unix.EAGAIN || errno == unix.EINTR
}

// robustListBytes is the size of the kernel's struct robust_list_head.
const robustListBytes = 24

// SetRobustList has the kernel go through a list of words when the calling thread ends,
// set OwnerDied in those that it holds, and wake who waits for them: before it frees
// the process's memory. head is the address of a struct robust_list_head that does
// not move; 0 is no list.
func SetRobustList(head uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, head, robustListBytes, 0); errno != 0 {
		return errno
	}
	return nil
}

// Thread is the calling thread's id, as the kernel writes it into a word.
func Thread() uint32 { return uint32(unix.Gettid()) }

// Yield lets another thread run on the calling thread's processor.
func Yield() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
