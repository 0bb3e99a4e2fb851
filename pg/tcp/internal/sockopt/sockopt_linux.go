package sockopt

import (
	"time"

	"golang.org/x/sys/unix"
)

// What Linux calls them.
const (
	queuedIn        = unix.TIOCINQ
	queuedOut       = unix.TIOCOUTQ
	notSentLowat    = unix.TCP_NOTSENT_LOWAT
	userTimeout     = unix.TCP_USER_TIMEOUT
	userTimeoutUnit = time.Millisecond
)

// Unpace takes a socket out of congestion control that paces.
func Unpace(fd int) { _ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") }
