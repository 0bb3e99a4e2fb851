package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// Drain asks to leave: the step under way is finished, the others form a quorum
// without this replica, and then StartQuorum or ShouldCommit returns
// ErrDrained; so it does, after a little while, when nobody is left but who
// drains. Until then, and for as long as the others still fetch from it,
// this replica goes on training and serving. Wire SIGTERM to it. One rank's
// call drains the whole replica; in ranks above 0 it waits for rank 0's. Any
// goroutine may call it, repeatedly; it does not block.
//
// Since a kill follows a SIGTERM, it leaves after Timeouts.Drain (and Timeouts.Heal, while
// a member heals from it) though the others have not gone on. An operator's drain is the
// same, but nothing presses there: until the others can do without it, it stays.
func (m *Manager) Drain() {
	m.mu.Lock()
	if m.mu.drain.until.IsZero() {
		m.mu.drain.until = time.Now().Add(m.timeouts.Drain)
	}
	m.mu.Unlock()
	m.drain("asked to")
}

// drain notes that this replica leaves, by its own wish or by an operator's, and sees
// to it that it does. What it knows already is no news.
func (m *Manager) drain(reason string) {
	reason = cmp.Or(reason, "an operator")
	m.mu.Lock()
	news, id, undone := m.mu.rank.Drain(reason), m.mu.rank.QuorumID(), m.mu.drain.undone
	m.mu.Unlock()
	if !news {
		return
	}
	m.log.Info().Str(logkey.Reason, reason).Int64(logkey.QuorumID, id).Msg("draining")
	m.events.Emit(Draining{Reason: reason})
	if m.replica != nil {
		m.tasks.Add(func(ctx context.Context) { m.tellDrain(ctx, undone) })
	}
}

// stay takes an operator's drain back, unless this replica itself wants to go as well, or
// has gone. before is how many drains had been taken back when that was asked; below 0: it is news.
func (m *Manager) stay(reason string, before int) {
	m.mu.Lock()
	d := &m.mu.drain
	news := (before < 0 || before == d.undone) && d.until.IsZero() && !d.left && m.mu.final == nil && m.mu.rank.Stay()
	if news {
		d.alone, d.undone = false, d.undone+1
		m.mu.Broadcast()
	}
	id := m.mu.rank.QuorumID()
	m.mu.Unlock()
	if news {
		m.log.Info().Str(logkey.Reason, reason).Int64(logkey.QuorumID, id).Msg("drain taken back")
		m.events.Emit(Stays{Reason: reason})
	}
}

// drain is how far a replica that leaves is. Guarded by Manager.mu.
type drain struct {
	alone  bool // no replica is left to take over: the next step does not begin
	left   bool
	undone int       // drains that were taken back
	until  time.Time // when it leaves though the others have not gone on; zero: it stays
}

// drainAgain is how often a draining replica tells the lighthouse again, which
// answers whether anybody is left to go on without it.
const drainAgain = 500 * time.Millisecond

// tellDrain tells the lighthouse until this replica has left. Where nobody is
// left who could go on, because everybody drains, it ends with the step under
// way. When others do not go on without it in the time that it has, it leaves all the same.
func (m *Manager) tellDrain(ctx context.Context, undone int) {
	var since time.Time       // when nobody else was there first; zero: somebody is
	var more time.Duration    // for a member that heals from it
	pause := time.Duration(1) // it is told at once
	for ; ; pause = drainAgain {
		var stays, stuck, late, gives bool
		err := m.await(ctx, "the others to go on", pause, func() bool {
			stays = m.mu.drain.undone != undone
			stuck = m.mu.drain.alone && m.mu.request != nil // nobody will answer it
			gives = m.mu.rank.Gives()                       // others heal from this rank
			late = !m.mu.drain.until.IsZero() && time.Now().After(m.mu.drain.until.Add(more))
			return stuck || stays
		})
		switch {
		case stays:
			return
		case stuck:
			m.endDrain(fmt.Errorf("%w: nobody was left to take over", ErrDrained))
			return
		case !errors.Is(err, monitor.ErrTimeout):
			return // ended, in one way or another
		case !late:
			since = m.tellOnce(ctx, since, undone)
		case more == 0 && gives:
			more = m.timeouts.Heal
		default:
			m.endDrain(fmt.Errorf("%w: nobody took over within %v", ErrDrained, m.timeouts.Drain))
			return
		}
	}
}

// tellOnce tells the lighthouse of the drain. It returns since when this
// replica has been alone, and has it leave once that has lasted for the linger
// time: a process that comes to take over may be under way.
func (m *Manager) tellOnce(ctx context.Context, since time.Time, before int) time.Time {
	m.mu.Lock()
	q, asked := m.mu.rank.Quorum(), m.mu.drain.until.IsZero()
	m.mu.Unlock()
	alone, undone, err := m.replica.Drain(ctx, q, asked)
	switch {
	case err != nil:
		m.log.Debug().Err(err).Msg("lighthouse not told of the drain")
		return since
	case undone: // and the notice of it was lost with a stream
		m.stay("the lighthouse says so", before)
		return since
	case !alone:
		return time.Time{}
	case since.IsZero():
		return time.Now()
	case time.Since(since) >= m.timeouts.Linger:
		m.mu.Lock()
		m.mu.drain.alone = true
		m.mu.Broadcast()
		m.mu.Unlock()
	}
	return since
}

// endDrain ends training in all ranks of this replica.
func (m *Manager) endDrain(err error) {
	m.replica.End(err)
	m.setFinal(ErrDrained)
}

// lookAgain is how often a replica that leaves looks whether the others have
// closed their links to it.
const lookAgain = 20 * time.Millisecond

// leave serves the others until their next group is there, which ends this
// one's, or the linger time has passed; then it says goodbye. Later calls do
// nothing.
func (m *Manager) leave(ctx context.Context) {
	m.mu.Lock()
	left, ready, id := m.mu.drain.left, m.mu.rank.Ready() && !m.mu.drain.alone, m.mu.rank.QuorumID()
	m.mu.drain.left = true
	m.mu.phase = quorum.PhaseDraining
	m.mu.Unlock()
	if left || m.replica == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Linger)
	defer cancel()
	for ready && m.managed.Err() == nil && ctx.Err() == nil {
		_ = backoff.Sleep(ctx, lookAgain) // the loop looks at ctx
	}
	m.sayGoodbye()
	m.log.Info().Int64(logkey.QuorumID, id).Msg("drained")
}
