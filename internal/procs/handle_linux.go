package procs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handle is one process for good: what comes after it under the same id is another one.
type Handle struct {
	PID int

	file *os.File
}

// Open opens a process. Errors: it has ended, or the kernel is older than Linux 5.3.
func Open(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Handle{PID: pid, file: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Inherited is the process of a descriptor that this process was started with.
func Inherited(fd uintptr) *Handle { return &Handle{file: os.NewFile(fd, "pidfd")} }

// File is the descriptor. It stays the handle's.
func (h *Handle) File() *os.File { return h.file }

// Signal sends a signal. Errors: os.ErrProcessDone; it is another user's.
func (h *Handle) Signal(s syscall.Signal) error {
	err := h.use(func(fd int) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// errTrace says what is missing.
var errTrace = errors.New("the kernel does not let this process look into it: run as the same user with kernel.yama.ptrace_scope = 0, as root, or with CAP_SYS_PTRACE")

// MayTrace tells whether Shutdown has the right to what it does.
func (h *Handle) MayTrace() error {
	return h.use(func(fd int) error {
		ours, err := unix.PidfdGetfd(fd, 0, 0)
		switch {
		case err == nil:
			return unix.Close(ours)
		case errors.Is(err, unix.EBADF): // it may be looked into, and has no such descriptor
			return nil
		case errors.Is(err, unix.EPERM):
			return errTrace
		}
		return err
	})
}

// Shutdown ends a connection of the process in both directions; both ends learn of it, as of
// a link that broke. It needs the right to trace the process, and Linux 5.6. Errors:
// net.ErrClosed, if either end has closed it.
func (h *Handle) Shutdown(c Conn) error {
	return h.use(func(fd int) error {
		ours, err := unix.PidfdGetfd(fd, c.fd, 0)
		if errors.Is(err, unix.EPERM) {
			err = errTrace
		}
		if errors.Is(err, unix.EBADF) {
			err = net.ErrClosed
		}
		if err != nil {
			return fmt.Errorf("take a connection of process %d: %w", h.PID, err)
		}
		defer unix.Close(ours) //nolint:errcheck // the process has its own
		var is unix.Stat_t
		if err := unix.Fstat(ours, &is); err != nil {
			return err
		}
		if strconv.FormatUint(is.Ino, 10) != c.inode { // its number is another file's now
			return net.ErrClosed
		}
		err = unix.Shutdown(ours, unix.SHUT_RDWR)
		if errors.Is(err, unix.ENOTCONN) { // the other end has
			return net.ErrClosed
		}
		if err != nil {
			return fmt.Errorf("end a connection of process %d: %w", h.PID, err)
		}
		return nil
	})
}

// use calls f with the descriptor.
func (h *Handle) use(f func(fd int) error) error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

// Close releases the handle.
func (h *Handle) Close() { _ = h.file.Close() } // nothing is written to it
