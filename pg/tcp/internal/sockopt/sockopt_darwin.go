package sockopt

import "time"

// What Darwin calls them. It has no ioctl for what is not confirmed yet, and refuses 0.
const (
	queuedIn        = 0x4004667f // FIONREAD
	queuedOut       = 0
	notSentLowat    = 0x201 // TCP_NOTSENT_LOWAT
	userTimeout     = 0x80  // TCP_RXT_CONNDROPTIME
	userTimeoutUnit = time.Second
)

// Unpace does nothing: congestion control is the system's alone.
func Unpace(int) {}
