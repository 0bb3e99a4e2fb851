//go:build !linux

package procs

import (
	"errors"
	"os"
	"syscall"
)

// Handle is one process for good. Only Linux has such.
type Handle struct{ PID int }

var errLinux = errors.New("faults in processes of this host need Linux")

// Open refuses.
func Open(int) (*Handle, error) { return nil, errLinux }

// Inherited is no process.
func Inherited(uintptr) *Handle { return &Handle{} }

// File is none.
func (h *Handle) File() *os.File { return nil }

// Signal refuses.
func (h *Handle) Signal(syscall.Signal) error { return errLinux }

// MayTrace refuses.
func (h *Handle) MayTrace() error { return errLinux }

// Shutdown refuses.
func (h *Handle) Shutdown(Conn) error { return errLinux }

// Close has nothing to release.
func (h *Handle) Close() {}
