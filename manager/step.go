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
// its first step, unless Config.Sync or Config.HealInPlace is set.
//
// Called again before ShouldCommit it begins the step anew, without the errors that
// were reported for it, and waits again if the first call gave up waiting. If
// operations were issued it cannot: it ends the step as a ShouldCommit would whose
// ctx has ended, and returns ErrStepOpen; the next call begins a step.
//
// It blocks on Run having been called, then as said above; ctx ends it. Errors:
// ErrNotRunning, ErrStepOpen, ErrDrained, ErrEvicted, ErrRefused, ErrAstray, ErrRankLost, ErrDiffered, ErrMaxRetries,
// ErrStateLost, ErrUnreachable, ErrClosed, *safetensors.MismatchError, what a load callback returned, ctx's cause.
func (m *Manager) StartQuorumWith(ctx context.Context, o StartOptions) error {
	defer m.enter()()
	if err := m.awaitRun(ctx); err != nil {
		return err
	}
	m.lend()
	if err := m.startQuorum(ctx, o); err != nil {
		m.comparison.End() // of an attempt that was begun before
		m.comparison = nil
		m.takeBack() // what the trainer does with its tensors now is its own
		return err
	}
	m.serve()
	m.compare()
	return nil
}

// startQuorum is StartQuorumWith up to where the trainer computes, and does not
// change its state.
func (m *Manager) startQuorum(ctx context.Context, o StartOptions) error {
	if err := m.prepare(); err != nil {
		return err
	}
	if err := m.begin(ctx, o); err != nil {
		return err
	}
	if err := m.settleMixed(ctx); err != nil {
		return err
	}
	return m.capture()
}

// begin begins an attempt, and waits for what it needs.
func (m *Manager) begin(ctx context.Context, o StartOptions) error {
	if err := m.copyAhead(ctx, o); err != nil {
		return err
	}
	m.mu.Lock()
	if m.mu.drain.alone && !m.openLocked() && m.mu.final == nil {
		m.mu.Unlock()
		m.endDrain(fmt.Errorf("%w: nobody was left to take over", ErrDrained))
		m.mu.Lock()
	}
	if m.mu.final != nil {
		m.mu.Unlock()
		return m.ended(ctx)
	}
	if m.openLocked() {
		if m.mu.rank.Issued() > 0 || m.tracked.busy() {
			m.mu.Unlock()
			return m.endUnended(ctx)
		}
		m.againLocked()
	} else {
		m.beginLocked(o)
	}
	wait := m.mu.attempt.waiting
	m.mu.Unlock()
	if !wait {
		return nil
	}
	return m.ready(ctx)
}

// beginLocked begins an attempt.
func (m *Manager) beginLocked(o StartOptions) {
	wait := m.mu.rank.Blocks() || m.healsFirstLocked()
	m.mu.rank.Begin()
	m.mu.attempt = attempt{waiting: wait, opts: o}
	if m.mu.rank.Void() {
		m.failLocked(errVoid)
	}
	m.neededLocked(o)
	m.mu.phase = quorum.PhaseTraining
	m.mu.Broadcast()
}

// prepare captures what a heal within StartQuorum writes into, once.
func (m *Manager) prepare() error {
	m.mu.Lock()
	done := m.mu.heals.captured != nil
	m.mu.Unlock()
	if done {
		return nil
	}
	return m.capture()
}

// againLocked begins the open attempt, which has issued nothing, anew. What the replica's
// ranks know to be lost stays lost.
func (m *Manager) againLocked() {
	a := &m.mu.attempt
	if a.waiting || a.err != nil && !a.siblingEnded && !m.mu.rank.Void() {
		m.retryLocked() // what failed was that wait, a quorum that fell meanwhile, or the trainer
		m.neededLocked(a.opts)
		m.mu.Broadcast()
	}
}

// retryLocked takes back that the open attempt has failed.
func (m *Manager) retryLocked() {
	if m.mu.rank.Void() {
		return
	}
	m.mu.rank.Again()
	m.mu.attempt.err, m.mu.attempt.cut = nil, false
}

// endUnended ends an attempt without ShouldCommit, and says so: a loop that forgets
// it would train on for ever without a commit, and its tensors would be given to
// others as the state of a step that they are not of.
func (m *Manager) endUnended(ctx context.Context) error {
	m.mu.Lock()
	m.mu.attempt.closing = true // what falls now is asked for anew at the end
	step, ops := m.mu.rank.Position().Step+1, m.mu.rank.Issued()
	m.mu.Unlock()
	m.transport.Pause()
	return m.abandon(ctx, fmt.Errorf("%w: step %d has issued %d operations", ErrStepOpen, step, ops))
}

// healsFirstLocked says whether a heal that is under way, or waits to be loaded, has to
// come before the collectives, since the join said so: the quorum counts this replica's
// gradients then. What the join said outlives what led to it: a step that was prepared may
// have been rolled forward since, and is no longer the first.
func (m *Manager) healsFirstLocked() bool {
	r, h := m.mu.request, m.mu.heals.current
	return r != nil && r.sync || h != nil && !h.beside
}

// neededLocked makes the request that the step needs, if any.
func (m *Manager) neededLocked(o StartOptions) {
	if r := m.mu.request; r != nil && r.opts != o && o != (StartOptions{}) {
		r.opts = o
		r.stopLocked(errRestarted)
	}
	m.needLocked(o)
}

// ready waits until the group is ready for this attempt, and loads the state
// if this replica heals.
func (m *Manager) ready(ctx context.Context) error {
	for {
		var heal *healing // to be loaded now; nil: none
		var stale, over, ended bool
		err := m.mu.Await(ctx, 0, func() bool {
			if stale = m.staleLocked(); stale {
				return true
			}
			heal = m.readyLocked()
			over, ended = m.mu.final != nil, m.mu.attempt.siblingEnded
			return over || ended || m.mu.request == nil
		})
		switch {
		case err != nil:
			return m.gaveUpWaiting(fmt.Errorf("start a quorum: %w", err))
		case stale:
			m.dropStale()
			continue
		case over:
			return m.ended(ctx)
		case ended || heal == nil: // ShouldCommit says so of one that has ended
			return nil
		}
		if err := m.load(ctx, heal); err != nil {
			return m.gaveUpWaiting(err)
		}
	}
}

// readyLocked asks for the quorum that the attempt needs, and notes that the attempt
// has begun once the group is there; it returns the heal that is to be loaded first.
func (m *Manager) readyLocked() *healing {
	if m.mu.final == nil && m.mu.rank.Need() {
		m.retryLocked() // it fell before this attempt could begin, which is not its fault
		m.requestLocked(m.mu.attempt.opts)
	}
	heal := m.mu.heals.current
	if heal != nil && heal.beside && m.mu.rank.Ahead() {
		heal = nil
	}
	if m.mu.request == nil && heal == nil {
		m.mu.rank.Started()
		m.mu.attempt.waiting = false
	}
	return heal
}

// gaveUpWaiting fails the attempt, of which the quorum was told that the state
// is there before the collectives: its operations must not carry another one.
// The next StartQuorum waits again.
func (m *Manager) gaveUpWaiting(err error) error {
	m.fail(err)
	return err
}

// WaitQuorum blocks until the quorum of this step is there and its group is
// configured, or ctx ends, or training has.
func (m *Manager) WaitQuorum(ctx context.Context) error {
	return m.await(ctx, "the quorum", 0, func() bool { return m.mu.request == nil })
}

// ended is what the trainer is told once training cannot go on. A drained
// replica first serves the others until they do without it.
func (m *Manager) ended(ctx context.Context) error {
	m.mu.Lock()
	err := m.mu.final
	m.mu.rank.Leave()
	m.mu.Broadcast()
	m.mu.Unlock()
	if errors.Is(err, ErrDrained) {
		m.leave(ctx)
	}
	return err
}
