//go:build !linux

package faults

import "os"

// reserve takes room behind at.
func reserve(f *os.File, at, size int64) error { return zeros(f, at, size) }
