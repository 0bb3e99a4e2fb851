// Package terminal is what commands that draw on a terminal want of it: its size, that
// what is typed does not show, and the keys that are pressed. It starts no goroutines.
package terminal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Is says whether f is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// Size is f's in characters, 80 by 24 if it does not say.
func Size(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// Quiet keeps what is typed at f from being shown, and hands keys on at once, until the
// function that it returns is called. Ctrl-C and Ctrl-Z work as ever. It does nothing
// where f is no terminal, or this process is in the background.
func Quiet(f *os.File) (restore func()) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil || !inFront(fd) {
		return func() {}
	}
	now := *before
	now.Lflag &^= unix.ECHO | unix.ICANON
	_ = unix.IoctlSetTermios(fd, setTermios, &now) // else it is echoed
	return func() {
		if inFront(fd) {
			_ = unix.IoctlSetTermios(fd, setTermios, before)
		}
	}
}

// inFront says that this process may change a terminal: one in the background of its own is stopped for
// that. Of another's no process is in the background.
func inFront(terminal int) bool {
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// backgroundLookMs is how often a process in the background looks whether it still is.
const backgroundLookMs = 200

// Keys hands on the keys that are pressed at f, until press returns false, f ends, or
// stop is written to or closed: a read of a terminal cannot be ended otherwise.
func Keys(f, stop *os.File, press func(key byte) (more bool)) error {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(stop.Fd()), Events: unix.POLLIN}}
	var key [1]byte
	for {
		if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return err
		}
		if fds[1].Revents != 0 {
			return nil
		}
		if fds[0].Revents == 0 {
			continue
		}
		if !inFront(int(f.Fd())) { // the keys are another's, and a read would stop this process
			_, _ = unix.Poll(fds[1:], backgroundLookMs) // whatever ends it, the loop looks again
			continue
		}
		n, err := unix.Read(int(f.Fd()), key[:])
		if err != nil || n == 0 || !press(key[0]) {
			return err
		}
	}
}
