package manager

import (
	"context"
	"errors"
	"sync"
)

// loan is the time in which a heal may read this rank's tensors, and call the save
// callbacks: from the call of StartQuorum to the end of ShouldCommit, or to that of a
// StartQuorum that returns an error. Otherwise they are the trainer's, which writes
// what it likes. A heal whose loan ends goes on in the next one, and compares anew:
// what it knew of bytes in the tensors holds no longer.
type loan struct {
	over  chan struct{}  // closed when the trainer wants its tensors back
	users sync.WaitGroup // grows only under Manager.mu, while the loan is there
}

// errTakenBack ends what a heal does with the tensors, until the next loan.
var errTakenBack = errors.New("the trainer has its tensors back")

// lend begins a loan, if there is none.
func (m *Manager) lend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.heals.loan == nil {
		m.mu.heals.loan = &loan{over: make(chan struct{})}
		m.mu.Broadcast()
	}
}

// borrow waits for a loan. The ctx that it returns ends with the loan, or with ctx;
// release is to be called soon after.
func (m *Manager) borrow(ctx context.Context) (_ context.Context, release func(), _ error) {
	var l *loan
	err := m.mu.Await(ctx, 0, func() bool {
		if l = m.mu.heals.loan; l != nil {
			l.users.Add(1)
		}
		return l != nil
	})
	if err != nil {
		return ctx, func() {}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends at release
		select {
		case <-l.over:
			cancel(errTakenBack)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		l.users.Done()
	}, nil
}

// takeBack ends the loan, and returns once nobody uses the tensors. They get the
// bytes back that they had before anything was copied into them, if these were kept. It
// runs on the trainer's goroutine.
//
// A state that has come, and was not loaded, is compared once more in the next loan.
func (m *Manager) takeBack() {
	m.mu.Lock()
	l := m.mu.heals.loan
	m.mu.heals.loan = nil
	m.mu.Unlock()
	if l == nil {
		return
	}
	close(l.over)
	l.users.Wait()
	m.mu.Lock()
	in, mixed := m.mu.heals.incoming, m.mixedLocked()
	if h := m.mu.heals.current; h != nil && h.arrived() {
		m.fetchLocked(h.again())
	}
	m.mu.Unlock()
	if in != nil {
		in.Mirror.Restore()
		m.mu.Lock()
		mixed = mixed && !m.mixedLocked()
		if m.mu.heals.incoming == in && m.mu.heals.stale {
			m.mu.heals.over = m.mixedLocked()
			m.mu.heals.incoming = nil
		}
		m.mu.Unlock()
	}
	if mixed {
		m.log.Info().Msg("copied state set aside")
	}
}
