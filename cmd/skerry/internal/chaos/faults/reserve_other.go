//go:build !linux

package faults

import (
	"errors"
	"os"
)

// reserve takes no room: only Linux can.
func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }
