package tcp

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell is what peers wake our poller with: a pipe, whose end for writing they hold
// too. Not an eventfd: a pipe can be opened anew, so that whether a write may
// block is each holder's own affair (see ownBell).
//
// What peers hold is not what we ring it with: they may do to theirs what they
// like.
type bell struct {
	file *os.File // for reading
	own  *os.File // for writing, ours alone
	pass *os.File // for writing, opened anew: peers get this one
	raw  syscall.RawConn
	read func(fd uintptr) bool
	buf  [512]byte
}

func newBell() (*bell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a bell: %w", err)
	}
	e := &bell{file: r, own: w}
	if e.pass, err = openBell(w, "bell for peers"); err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	if e.raw, err = e.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a bell: %w", err), e.close())
	}
	e.read = func(fd uintptr) bool {
		_, err := unix.Read(int(fd), e.buf[:])
		return err != unix.EAGAIN
	}
	return e, nil
}

// wait sleeps until the bell rings or is closed.
func (e *bell) wait() error { return e.raw.Read(e.read) }

// ring wakes our own poller.
func (e *bell) ring() {
	raw, err := e.own.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { ringFD(int(fd)) }) // closed means over
	}
}

func (e *bell) close() error { return errors.Join(e.file.Close(), e.own.Close(), e.pass.Close()) }

// ringFD rings the bell behind a descriptor that does not block. What fails does not
// matter: full means rung, and a peer's death is its socket's news.
func ringFD(fd int) {
	one := [1]byte{1}
	_, _ = unix.Write(fd, one[:])
}

// ownBell opens a peer's bell anew, so that nothing the peer does to its own
// descriptor can make ours block. It closes f, and refuses what is no pipe.
func ownBell(f *os.File) (*os.File, error) {
	defer f.Close() // it is the peer's
	return openBell(f, "peer's bell")
}

// openBell opens the end for writing of a pipe anew.
func openBell(f *os.File, name string) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	var inner error
	err = raw.Control(func(fd uintptr) {
		path := fmt.Sprintf("/proc/self/fd/%d", fd)
		to, err := os.Readlink(path)
		if inner = err; err == nil && !strings.HasPrefix(to, "pipe:[") {
			inner = fmt.Errorf("%w: bell is %q", ErrCorrupt, to)
		} else if err == nil {
			own, inner = unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
	})
	if err := errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("open a %s by /proc: %w", name, err)
	}
	return os.NewFile(uintptr(own), name), nil
}
