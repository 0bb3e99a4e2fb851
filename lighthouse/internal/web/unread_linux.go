package web

import (
	"net"

	"golang.org/x/sys/unix"
)

// boundSilence lets the system end a connection whose reader has taken nothing for unreadPatience.
// Where that is refused the bound of bytes holds.
//
// Source: TCP_USER_TIMEOUT in tcp(7). A closed window counts, too; see docs/bench/viewers.md.
func boundSilence(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unreadPatience.Milliseconds()))
	})
}
