package pause

import (
	"syscall"
	"time"
)

// sleep makes the thread sleep; a signal may end it early.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // early is early enough
}
