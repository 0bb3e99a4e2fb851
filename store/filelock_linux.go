package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks one byte, or reports false if somebody else has it.
func tryLock(f *os.File, at int64, exclusive bool) (bool, error) {
	l := lockOf(at, exclusive)
	err := fcntl(f, unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

func unlock(f *os.File, at int64) error {
	l := lockOf(at, false)
	l.Type = unix.F_UNLCK
	if err := fcntl(f, unix.F_OFD_SETLK, &l); err != nil {
		return fmt.Errorf("unlock %s: %w", f.Name(), err)
	}
	return nil
}

// lockedByOthers tells whether anybody else holds the byte.
func lockedByOthers(f *os.File, at int64) (bool, error) {
	l := lockOf(at, true)
	if err := fcntl(f, unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("look at lock of %s: %w", f.Name(), err)
	}
	return l.Type != unix.F_UNLCK, nil
}

func lockOf(at int64, exclusive bool) unix.Flock_t {
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: at, Len: 1}
	if exclusive {
		l.Type = unix.F_WRLCK
	}
	return l
}

func fcntl(f *os.File, cmd int, l *unix.Flock_t) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var got error
	if err := raw.Control(func(fd uintptr) { got = unix.FcntlFlock(fd, cmd, l) }); err != nil {
		return err
	}
	return got
}
