package faults

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room behind at. What it took before it failed stays taken.
func reserve(f *os.File, at, size int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = unix.Fallocate(int(fd), 0, at, size) }); err != nil {
		return err
	}
	if errors.Is(result, unix.EOPNOTSUPP) {
		return zeros(f, at, size)
	}
	return result
}
