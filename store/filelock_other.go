//go:build !linux

package store

import (
	"errors"
	"fmt"
	"os"
)

// A lock of a whole process, which is what other systems have, does not keep two stores of one
// process apart: a FileStore ends with an error here.
func unsupported(f *os.File) error { return fmt.Errorf("lock %s: %w", f.Name(), errors.ErrUnsupported) }

func tryLock(f *os.File, _ int64, _ bool) (bool, error) { return false, unsupported(f) }

func unlock(f *os.File, _ int64) error { return unsupported(f) }

func lockedByOthers(f *os.File, _ int64) (bool, error) { return false, unsupported(f) }
