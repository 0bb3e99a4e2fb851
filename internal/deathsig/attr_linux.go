package deathsig

import "syscall"

// Attr is for [os/exec.Cmd].SysProcAttr. The caller may add to it.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
