// Package baby will run any registered backend in a child process, so that a
// collective library that hangs or crashes cannot take the trainer down.
//
// This is the contract; there is no implementation yet, and the registry does
// not know the name "baby:…".
//
// # Contract
//
// The child is this same binary, re-executed as train/spawn does. Tensors lie
// in shared memory (memfd; allocated by the package's allocator, or copied in
// and out for foreign memory); device tensors go by IPC handles through
// pg.DeviceMemory. Ops travel as data with ids, multiplexed, many in flight,
// complete in any order; Submit never waits for the child. The death of the
// child fails all pending ops at once, after it is reaped, with exit code,
// signal and last stderr lines in the error; if reaping takes more than one
// second its memory is abandoned and the error says so. Configure ends the old
// child (term, then kill, bounded), and a warm spare makes the new one a swap.
// A child whose parent dies goes too.
package baby

import (
	"context"

	"github.com/skerry-ft/skerry/pg"
)

// Group is what a Baby adds to a backend.
type Group interface {
	pg.Backend

	// Active is the number of ops in flight in the child.
	Active() int
	// Child tells which process runs the ops; ok is false when there is none.
	Child() (pid int, ok bool)
	// Warm starts the spare that the next Configure takes. It returns when the
	// spare is ready or ctx ends.
	Warm(ctx context.Context) error
}
