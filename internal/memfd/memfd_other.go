//go:build !linux

package memfd

import (
	"errors"
	"fmt"
	"os"
)

// Create says that this system has no such memory: who shares by it goes by sockets.
func Create(name string, _ int) (*Segment, error) {
	return nil, fmt.Errorf("memfd: create %q: %w", name, errors.ErrUnsupported)
}

// FromFile refuses every file: none is sealed here.
func FromFile(f *os.File) (*Segment, error) {
	return nil, fmt.Errorf("%w: %s", ErrUnsealed, f.Name())
}
