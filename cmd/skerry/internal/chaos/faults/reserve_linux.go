package faults

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room behind at. What it took before it failed stays taken. Where a file system
// can reserve nothing, the error is errors.ErrUnsupported.
func reserve(f *os.File, at, size int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	result := error(unix.EINTR)
	for errors.Is(result, unix.EINTR) { // a signal of Go's scheduler
		if err := raw.Control(func(fd uintptr) { result = unix.Fallocate(int(fd), 0, at, size) }); err != nil {
			return err
		}
	}
	return result
}
