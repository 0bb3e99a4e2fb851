package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// presence knows whether the trainer is there: whether it has called anything
// lately. Safe for concurrent use; the zero value is not usable, see newPresence.
type presence struct {
	began time.Time
	moves atomic.Uint64 // counts the trainer's moves, for the beats
	moved atomic.Int64  // when it moved last, since began
	calls atomic.Int32  // StartQuorum and ShouldCommit under way
	away  atomic.Bool   // a quorum fell, and this rank did not join for it

	telling chan struct{} // holds one while the server is told: each word is newer than the last
}

func newPresence() presence {
	return presence{began: time.Now(), telling: make(chan struct{}, 1)}
}

// idle is how long the trainer has called nothing.
func (p *presence) idle() time.Duration {
	return time.Since(p.began) - time.Duration(p.moved.Load())
}

// move notes that the trainer, or something that it waits for, moves.
func (m *Manager) move() {
	m.presence.moves.Add(1)
	m.presence.moved.Store(int64(time.Since(m.presence.began)))
	if m.presence.away.Load() {
		m.comeBack()
	}
}

// Move tells that the trainer moves. A loop that calls nothing else for long, since it
// makes inner steps that are not reduced or evaluates, calls it now and then: one that
// has not for StepTimeout is away, and one for which the others wait is stuck (L1, L3). It does not
// wait for a peer, and belongs to the trainer: a goroutine that calls it for one that hangs makes
// the others wait.
func (m *Manager) Move() { m.move() }

// enter begins a call of the trainer; the returned function ends it.
func (m *Manager) enter() func() {
	m.presence.calls.Add(1)
	m.metrics.Enter()
	m.move()
	return func() {
		m.move()
		m.metrics.Leave()
		m.presence.calls.Add(-1)
	}
}

// gone says whether this rank stops joining for its trainer (L1).
func (m *Manager) gone() bool {
	waits := m.presence.calls.Load() > 0 || m.tracked.busy() || m.balloting.Load() > 0
	return quorum.TrainerAway(m.presence.idle(), m.timeouts.Step, waits)
}

// untilGone is when to look again whether the trainer is gone.
func (m *Manager) untilGone() time.Duration {
	return max(m.timeouts.Step-m.presence.idle(), minLook)
}

// minLook is between two looks at a trainer that has not moved, and waits.
const minLook = 100 * time.Millisecond

// goAwayLocked makes this rank join no more until its trainer moves; false if it has
// moved by now. A move before away is set finds it not set, and one behind it comes
// back, so what is looked at behind it is enough.
func (m *Manager) goAwayLocked() bool {
	if m.presence.away.Swap(true) {
		return true
	}
	if !m.gone() {
		m.presence.away.Store(false)
		return false
	}
	m.log.Warn().Dur(logkey.ElapsedMs, m.presence.idle()).Int64(logkey.QuorumID, m.mu.rank.QuorumID()).
		Msg("trainer does not move, quorum left until it does")
	m.tellAway()
	return true
}

// awaitStart makes this rank away if its trainer does not come to the StartQuorum that
// joins for it, after quorum id fell. (A rank whose StartQuorum waits for the quorum does
// not join beside its trainer, so nothing else would find out that this one hangs: each
// fall would cost the others a join timeout, for ever.)
func (m *Manager) awaitStart(id int64) {
	needed := func() bool {
		return m.mu.final == nil && m.mu.request == nil && m.mu.rank.In(id) && !m.mu.rank.Standing()
	}
	m.tasks.Add(func(ctx context.Context) { m.watchTrainer(ctx, needed, m.goAwayLocked) })
}

// watchTrainer looks, while this rank needs its trainer to move, whether it does; when
// it is gone it calls goes, and ends if that returns true. Both are called with the lock
// held. It ends with ctx, too.
func (m *Manager) watchTrainer(ctx context.Context, needed, goes func() bool) {
	for again := true; again; {
		err := m.mu.Await(ctx, m.untilGone(), func() bool { return !needed() || m.gone() && goes() })
		again = errors.Is(err, monitor.ErrTimeout)
	}
}

// comeBack asks for a quorum again, now that the trainer moves. Its operations
// wait for it, or its StartQuorum does.
func (m *Manager) comeBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.presence.away.Swap(false) {
		return
	}
	m.log.Info().Msg("trainer moves again")
	m.tellAway()
	if m.mu.rank.Quorum() != nil && m.openLocked() {
		m.needLocked(m.mu.attempt.opts)
	}
}

// tellAway tells the replica's server, which is told what is so when it is.
func (m *Manager) tellAway() {
	m.tasks.Add(func(ctx context.Context) {
		select {
		case <-m.linked:
		case <-ctx.Done():
			return
		}
		select {
		case m.presence.telling <- struct{}{}:
		case <-ctx.Done():
			return
		}
		m.link.Away(ctx, m.presence.away.Load)
		<-m.presence.telling
	})
}
