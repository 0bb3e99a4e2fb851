//go:build !linux

package python

import (
	"errors"
	"fmt"
	"runtime"
)

func held([]byte) (fd int, err error) {
	return 0, fmt.Errorf("hand data to python on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
