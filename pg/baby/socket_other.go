//go:build !linux

package baby

import (
	"errors"
	"fmt"
	"os"
)

const noSignal = 0

// socketPair says that there are no children here: they share memory that this system has not.
func socketPair() (ours, theirs *os.File, err error) {
	return nil, nil, fmt.Errorf("baby: on this system: %w", errors.ErrUnsupported)
}
