package goodput

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// memfd is the path of a file of this process, open beyond exec.
func memfd(name string, data []byte) (path string, err error) {
	fd, err := unix.MemfdCreate(name, 0)
	if err != nil {
		return "", fmt.Errorf("make a file for %s: %w", name, err)
	}
	if _, err := unix.Write(fd, data); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}
