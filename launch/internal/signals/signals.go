// Package signals passes a launcher's signals on to its ranks: to those that run, and to those whose
// start is under way, for a process may run, and have written that it does, before its
// start has returned.
package signals

import (
	"sync"
	"syscall"

	"github.com/skerry-ft/skerry/launch/internal/child"
)

// missedMost bounds what a start remembers: to the kernel, too, ten of a kind are one.
const missedMost = 32

// missed are the signals that came while a rank was started.
type missed struct{ signals []syscall.Signal }

// Ranks are those that signals reach. The zero value has none; it is safe for concurrent use.
type Ranks struct {
	mu struct {
		sync.Mutex

		running map[*child.Process]struct{}
		starts  map[*missed]struct{} // those that are under way
	}
}

// Send sends a signal to all ranks that run; one that is being started gets it when it runs.
func (r *Ranks) Send(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.mu.running {
		p.Signal(s)
	}
	for m := range r.mu.starts {
		if len(m.signals) < missedMost {
			m.signals = append(m.signals, s)
		}
	}
}

// Start starts a rank's process, which Send reaches from now on. Errors: those of child.Start.
func (r *Ranks) Start(s child.Spec) (*child.Process, error) {
	m := new(missed)
	r.mu.Lock()
	if r.mu.starts == nil {
		r.mu.running, r.mu.starts = make(map[*child.Process]struct{}), make(map[*missed]struct{})
	}
	r.mu.starts[m] = struct{}{}
	r.mu.Unlock()
	p, err := child.Start(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.starts, m)
	if err != nil {
		return nil, err
	}
	r.mu.running[p] = struct{}{}
	for _, s := range m.signals {
		p.Signal(s)
	}
	return p, nil
}

// Forget takes a process out, which has ended, or is given up.
func (r *Ranks) Forget(p *child.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.running, p)
}
