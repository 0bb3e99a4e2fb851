package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/quorum"
)

// StartOptions are the rare wishes of one StartQuorum.
type StartOptions struct {
	// ForbidHeal takes part only if up to date; a replica that is behind does
	// not load a state in this quorum.
	ForbidHeal bool
	// ShrinkOnly asks that nobody new is let in.
	ShrinkOnly bool
}

// StartQuorum begins a step: StartQuorumWith without wishes.
func (m *Manager) StartQuorum(ctx context.Context) error {
	return m.StartQuorumWith(ctx, StartOptions{})
}

// StartQuorumWith begins a step. While the quorum stands it asks nobody and
// returns at once. Otherwise it joins the next one, beside the forward pass;
// with Config.Sync, in the first quorum of a process, and at step 0 while
// replicas still have different states, it waits for the quorum, the group and
// the heal. In the first quorum of a process it first copies what it can of the
// others' state, while they go on, if a quorum stands; then the heal comes beside
// its first step, unless Config.Sync is set. Called again before ShouldCommit, it does nothing,
// unless the first call gave up waiting: then it waits again.
//
// It blocks on Run having been called, then as said above; ctx ends it. Errors:
// ErrDrained, ErrEvicted, ErrRefused, ErrRankLost, ErrUnreachable, ErrClosed,
// *checkpoint.MismatchError, what a load callback returned, ctx's cause.
func (m *Manager) StartQuorumWith(ctx context.Context, o StartOptions) error {
	defer m.enter()()
	if err := m.copyAhead(ctx, o); err != nil {
		return err
	}
	m.mu.Lock()
	if m.mu.alone && !m.mu.attempt.open && m.mu.final == nil {
		m.mu.Unlock()
		m.endDrain(fmt.Errorf("%w: nobody was left to take over", ErrDrained))
		m.mu.Lock()
	}
	if m.mu.final != nil {
		m.mu.Unlock()
		return m.ended(ctx)
	}
	if m.mu.attempt.open {
		wait := m.againLocked()
		m.mu.Unlock()
		if !wait {
			return nil
		}
		return m.begun(m.ready(ctx))
	}
	wait := m.blockingLocked() || m.promisedLocked()
	m.mu.attempt = attempt{number: m.mu.attempt.number + 1, open: true, waiting: wait, opts: o}
	m.neededLocked(o)
	m.mu.phase = quorum.PhaseTraining
	m.changedLocked()
	m.mu.Unlock()
	if !wait {
		return m.begun(nil)
	}
	return m.begun(m.ready(ctx))
}

// begun ends StartQuorum: the trainer computes, and does not change its state.
func (m *Manager) begun(err error) error {
	if err != nil {
		m.unmix() // what the trainer does with its tensors now is its own
		return err
	}
	m.settleMixed()
	m.serve()
	return nil
}

// againLocked begins the open attempt anew if its StartQuorum gave up waiting;
// it says whether there is something to wait for.
func (m *Manager) againLocked() bool {
	a := &m.mu.attempt
	if a.waiting {
		a.err, a.cut = nil, false // that ctx's, or of a quorum that fell meanwhile
		m.neededLocked(a.opts)
		m.changedLocked()
	}
	return a.waiting
}

// blockingLocked says whether a step waits for its quorum before the forward
// pass: then a replica that heals does so first, and takes part.
func (m *Manager) blockingLocked() bool {
	return m.cfg.Sync || !m.mu.everReady || !m.cfg.NoInitSync && m.mu.position.Step == 0
}

// promisedLocked says whether a heal that is under way, or waits to be loaded, was
// promised to come before the collectives: the quorum counts this replica's gradients
// then. The promise is of the join, and outlives what led to it: a step that was
// prepared may have been rolled forward since, and is no longer the first.
func (m *Manager) promisedLocked() bool {
	r, h := m.mu.request, m.mu.heal
	return r != nil && r.sync || h != nil && !h.beside
}

// syncLocked says whether a heal comes before the collectives, and this replica
// takes part at once. The others wait for it then.
func (m *Manager) syncLocked() bool {
	return m.cfg.Sync || m.blockingLocked() && !m.mu.ahead
}

// neededLocked makes the request that the step needs, if any.
func (m *Manager) neededLocked(o StartOptions) {
	switch {
	case m.mu.request != nil:
		if r := m.mu.request; r.opts != o && o != (StartOptions{}) {
			r.opts = o
			r.stopLocked(errRestarted)
		}
	case !m.mu.standing:
		m.requestLocked(quorum.JoinFall, o)
	}
}

// askLocked asks for another quorum, at the end of the step whose ballots said
// that one is wanted. All members learn that from the same ballots, and an ask
// is answered only when all have asked: none waits until its trainer comes round
// to the next step, which may take minutes.
func (m *Manager) askLocked() {
	if m.mu.request == nil && m.mu.standing && m.mu.final == nil {
		m.requestLocked(quorum.JoinAsk, StartOptions{})
	}
}

// ready waits until the group is ready for this attempt, and loads the state
// if this replica heals.
func (m *Manager) ready(ctx context.Context) error {
	for {
		m.mu.Lock()
		final, request, heal, doomed := m.mu.final, m.mu.request, m.mu.heal, m.mu.attempt.doomed
		usable := m.mu.standing && m.mu.ready
		if final == nil && request == nil && !usable {
			// It fell before this attempt could begin, which is not its fault.
			m.mu.attempt.err, m.mu.attempt.cut = nil, false
			m.requestLocked(quorum.JoinFall, m.mu.attempt.opts)
			request = m.mu.request
		}
		beside := heal != nil && heal.beside && m.mu.ahead
		if request == nil && (heal == nil || beside) {
			m.mu.everReady = true
			m.mu.attempt.waiting = false
		}
		changed := m.mu.changed
		m.mu.Unlock()
		switch {
		case final != nil:
			return m.ended(ctx)
		case doomed:
			return nil // ShouldCommit says so
		case request == nil && heal != nil && !beside:
			if err := m.load(ctx, heal); err != nil {
				return m.gaveUpWaiting(err)
			}
			continue
		case request == nil:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return m.gaveUpWaiting(fmt.Errorf("start a quorum: %w", context.Cause(ctx)))
		}
	}
}

// gaveUpWaiting fails the attempt, of which the quorum was told that the state
// is there before the collectives: its operations must not carry another one.
// The next StartQuorum waits again.
func (m *Manager) gaveUpWaiting(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failLocked(err)
	return err
}

// WaitQuorum blocks until the quorum of this step is there and its group is
// configured, or ctx ends, or training has.
func (m *Manager) WaitQuorum(ctx context.Context) error {
	for {
		m.mu.Lock()
		final, waiting := m.mu.final, m.mu.request != nil
		changed := m.mu.changed
		m.mu.Unlock()
		switch {
		case final != nil:
			return final
		case !waiting:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the quorum: %w", context.Cause(ctx))
		}
	}
}

// ended is what the trainer is told once training cannot go on. A drained
// replica first serves the others until they do without it.
func (m *Manager) ended(ctx context.Context) error {
	m.mu.Lock()
	err := m.mu.final
	m.mu.attempt.open = false
	m.changedLocked()
	m.mu.Unlock()
	if errors.Is(err, ErrDrained) {
		m.leave(ctx)
	}
	return err
}
