package baby

import (
	"fmt"
	"os"
	"syscall"
)

// noSignal has a write to a pipe whose other end is closed fail, and nothing else happen.
const noSignal = syscall.MSG_NOSIGNAL

// socketPair makes the connection with a child.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("baby: socket for the child: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "baby"), os.NewFile(uintptr(fds[1]), "baby child"), nil
}
