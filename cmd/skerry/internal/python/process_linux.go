package python

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// held is a file of this process with the data, open beyond exec.
func held(data []byte) (fd int, err error) {
	file, err := unix.MemfdCreate("data", 0)
	if err != nil {
		return 0, fmt.Errorf("make a file for the data: %w", err)
	}
	if _, err := unix.Write(file, data); err != nil {
		return 0, fmt.Errorf("write the data: %w", err)
	}
	return file, nil
}
