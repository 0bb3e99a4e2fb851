// Package sockopt asks a TCP socket, and sets in it, what package net does not. What a system
// refuses it does without: an answer is 0 then, and an option stays as it was.
package sockopt

import (
	"time"

	"golang.org/x/sys/unix"
)

// Unread is how many bytes wait to be read.
func Unread(fd int) int { return queued(fd, queuedIn) }

// Unacknowledged is how many written bytes the peer's system has not confirmed.
func Unacknowledged(fd int) int { return queued(fd, queuedOut) }

func queued(fd int, request uint) int {
	n, err := unix.IoctlGetInt(fd, request)
	if err != nil {
		return 0
	}
	return n
}

// LimitUnsent has writes wait while so many bytes are not sent yet.
func LimitUnsent(fd, n int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, notSentLowat, n) }

// UnansweredFor ends the connection when what was sent is not acknowledged for d; 0: the
// system's own time.
func UnansweredFor(fd int, d time.Duration) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, userTimeout, int(d/userTimeoutUnit))
}
