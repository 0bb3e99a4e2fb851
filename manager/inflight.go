package manager

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/manager/internal/metrics"
	"github.com/skerry-ft/skerry/pg"
)

// tracked is the backend that the trainer's group holds: it knows how many
// operations are under way, so that a ballot comes after the last of them.
type tracked struct {
	*pg.Managed

	finish  func(error) // made once: Then keeps it
	moves   func()      // is told of each operation: the trainer moves
	metrics *metrics.Metrics

	mu struct {
		monitor.Monitor // that pending became 0

		pending int
	}
}

func newTracked(m *pg.Managed, moves func(), counts *metrics.Metrics) *tracked {
	t := &tracked{Managed: m, moves: moves, metrics: counts}
	t.finish = t.finished
	return t
}

// Submit implements pg.Backend.
//
// An operation is a move of the trainer also while it is held until there is a
// quorum: a replica that was left out because its trainer hung waits for that
// move, and its operation for the replica.
func (t *tracked) Submit(op *pg.Op) *pg.Work {
	t.moves()
	t.metrics.Issued()
	t.mu.Lock()
	t.mu.pending++
	t.mu.Unlock()
	w := t.Managed.Submit(op)
	w.Then(t.finish)
	return w
}

// Unwrap implements pg.Unwrapper.
func (t *tracked) Unwrap() pg.Backend { return t.Managed }

func (t *tracked) finished(error) {
	t.metrics.Finished()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.pending--; t.mu.pending == 0 {
		t.mu.Broadcast()
	}
}

// busy says that something is under way.
func (t *tracked) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.pending > 0
}

// wait blocks until nothing has been under way for a moment, or ctx ends.
func (t *tracked) wait(ctx context.Context) error {
	waited := false
	return t.mu.Await(ctx, 0, func() bool {
		over := waited || t.mu.pending == 0 // woken because it was 0: more may have begun since
		waited = true
		return over
	})
}

// issued is the backend below Managed: it counts what reaches the group, gives
// it its deadline, and forwards the rest.
type issued struct {
	pg.Backend

	m *Manager
}

// Submit implements pg.Backend.
func (b *issued) Submit(op *pg.Op) *pg.Work {
	b.m.issuing(op)
	return b.Backend.Submit(op)
}

// SetRound implements pg.Rounder for backends that know rounds.
func (b *issued) SetRound(round int64) {
	if r, ok := b.Backend.(pg.Rounder); ok {
		r.SetRound(round)
	}
}

// Unwrap implements pg.Unwrapper.
func (b *issued) Unwrap() pg.Backend { return b.Backend }

// issuing notes that op reaches the group below.
func (m *Manager) issuing(op *pg.Op) {
	m.presence.moves.Add(1)
	m.mu.Lock()
	if op.Kind != pg.KindBallot {
		m.mu.rank.Issue()
	}
	patience, points := m.opTimeoutLocked(), m.mu.life.points
	m.mu.Unlock()
	if op.Kind != pg.KindBallot {
		points.At(failpoint.AllReduceBefore)
	}
	if op.Deadline.IsZero() {
		op.Deadline = time.Now().Add(patience)
	}
}

// OpTimeout is how long an operation of the step under way may take.
func (m *Manager) OpTimeout() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opTimeoutLocked()
}

// opTimeoutLocked is how long an operation may take: a member that heals makes
// the others wait for its state, in the first step of its quorum.
func (m *Manager) opTimeoutLocked() time.Duration {
	if m.mu.rank.AwaitsHeals() {
		return m.timeouts.Heal
	}
	return m.timeouts.Step
}
