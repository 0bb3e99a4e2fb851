package baby

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
)

// ChildError tells how the child ended, if it ended otherwise than it was told.
type ChildError struct {
	Backend string
	PID     int
	Code    int            // exit status, or -1 after a signal
	Signal  syscall.Signal // 0 if it exited by itself
	Why     string         // why we killed it, or ""
	Stderr  string         // its last lines
	// Abandoned says that it could not be reaped within ReapLimit: the shared
	// memory of its ops is never used again.
	Abandoned bool
}

func (e *ChildError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "baby: child %d (%s)", e.PID, e.Backend)
	switch {
	case e.Abandoned:
		fmt.Fprintf(&b, " is not gone %v after SIGKILL; the shared memory of its ops is abandoned, do not read it", ReapLimit)
	case e.Signal != 0:
		fmt.Fprintf(&b, " was killed by %s", cmp.Or(unix.SignalName(e.Signal), e.Signal.String()))
	default:
		fmt.Fprintf(&b, " exited with status %d", e.Code)
	}
	if e.Why != "" {
		b.WriteString(" (by us: " + e.Why + ")")
	}
	if e.Stderr != "" {
		b.WriteString(": " + e.Stderr)
	}
	return b.String()
}

// sentinels are the errors that keep their identity on the way through the
// socket, by bit. Both sides are one binary, so the order may change.
func sentinels() []error {
	return []error{
		pg.ErrAborted, pg.ErrUnconfigured, pg.ErrClosed, pg.ErrUsedPrefix, pg.ErrMismatch,
		pg.ErrInvalidOp, pg.ErrNotParticipating, pg.ErrPeerLost, pg.ErrUnreachable, pg.ErrNoStore, pg.ErrUnsupported,
		context.DeadlineExceeded, context.Canceled,
	}
}

// A fault is an error on its way through the socket.
type fault struct {
	Text  string
	Are   uint64      // bits of sentinels
	Op    *pg.OpError // the one within, if there is one; without its cause
	Cause string      // the text of that
}

// maxFaultText bounds the text of an error.
const maxFaultText = 16 << 10

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxFaultText)], "?") }

func newFault(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: cut(err.Error())}
	for i, s := range sentinels() {
		if errors.Is(err, s) {
			f.Are |= 1 << i
		}
	}
	if e, ok := errors.AsType[*pg.OpError](err); ok {
		op := *e
		op.Err = nil
		f.Op, f.Cause = &op, cut(e.Err.Error())
	}
	return f
}

// decodeFault reads an error that may be none. cause is ours, which led to it,
// or nil; the result is it, too.
func decodeFault(b []byte, cause error) error {
	if len(b) == 0 {
		return nil
	}
	var f fault
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("baby: error report of the child cannot be read: %w", err)
	}
	return f.error(cause)
}

func (f *fault) error(cause error) error {
	var are []error
	for i, s := range sentinels() {
		if f.Are&(1<<i) != 0 {
			are = append(are, s)
		}
	}
	if cause != nil {
		are = append(are, cause)
	}
	f.Text = cut(f.Text) // it may not come from newFault: the child may be out of its mind
	if f.Op == nil {
		return pg.NewRemoteError(f.Text, are...)
	}
	inner := f.Op
	inner.PeerID, inner.Err = cut(inner.PeerID), pg.NewRemoteError(cut(f.Cause), are...)
	if inner.Error() == f.Text {
		return inner
	}
	return pg.NewRemoteError(f.Text, append([]error{inner}, are...)...)
}
