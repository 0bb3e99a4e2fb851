//go:build !linux

package deathsig

import "syscall"

// Attr is for [os/exec.Cmd].SysProcAttr. It says nothing, here.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
