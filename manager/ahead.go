package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

// copying is the fetch of most of a state before the first join, in the first
// StartQuorum of a process: as a virtual machine is moved, the memory goes first,
// while the old one runs, and what has changed meanwhile follows when it stands.
// Those who train go on and feel a limited rate of reads. The trainer of this rank
// waits, so the tensors can be written.
type copying struct {
	stop           context.CancelCauseFunc
	started, ended bool // guarded by Manager.mu
}

// ahead is how far the copy before the first join is. Guarded by Manager.mu.
type ahead struct {
	copying *copying // nil: it does not run
	over    bool     // it has ended, or there was nothing to copy
	called  bool     // the lighthouse has said that a quorum fell, while nothing was copied
}

const (
	// aheadRounds is how often the state is gone through at most: each round
	// brings what changed in the one before.
	aheadRounds = 4
	// aheadEnough is so little that the quorum can wait for it.
	aheadEnough = 32 << 20
)

// errNeeded ends the copying: the others wait for this replica.
var errNeeded = errors.New("the quorum fell, and too few are left")

// copyAhead waits for the copying. If ctx ends first, or training has, the next
// StartQuorum goes on.
func (m *Manager) copyAhead(ctx context.Context, o StartOptions) error {
	m.mu.Lock()
	over := m.mu.rank.EverStarted() || m.mu.ahead.over || m.mu.ahead.called || m.mu.final != nil || m.openLocked()
	if over || o.ForbidHeal || m.states.Empty() {
		m.mu.Unlock()
		return nil
	}
	c := &copying{}
	c.stop = m.tasks.Start(func(ctx context.Context) { m.copyFirst(ctx, c) })
	m.mu.ahead.copying = c
	m.mu.Unlock()
	err := m.await(ctx, "the copy of a state before joining", 0, func() bool { return c.ended })
	m.endCopying(c, err == nil)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		return nil // training has ended: the caller says so
	}
	return err
}

// endCopying ends c and waits for it, if it ever began; done says that there will
// be no other.
func (m *Manager) endCopying(c *copying, done bool) {
	m.mu.Lock()
	m.mu.ahead.over, m.mu.ahead.copying = done, nil
	c.stop(errNeeded)
	m.mu.Unlock()
	_ = m.mu.Await(context.Background(), 0, func() bool { return c.ended || !c.started }) // it ends in no other way
}

// needed ends the copying at the lighthouse's word; it says whether there was any. A
// newcomer that was called before its first StartQuorum, which compiles its model say,
// begins none: it would copy from those who wait for it, until the heal timeout.
func (m *Manager) needed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.mu.ahead.copying
	if c == nil {
		m.mu.ahead.called = true
		return false
	}
	c.stop(errNeeded)
	return true
}

// copyFirst works c.
func (m *Manager) copyFirst(ctx context.Context, c *copying) {
	m.mu.Lock()
	c.started = ctx.Err() == nil
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		c.ended = true
		m.mu.Broadcast()
	}()
	if !c.started {
		return
	}
	select {
	case <-m.linked:
	case <-ctx.Done():
		return
	}
	from, err := m.link.Sources(ctx)
	if err == nil && len(from.Peers) > 0 {
		err = m.copyFrom(ctx, from)
	}
	switch _, mismatch := errors.AsType[*safetensors.MismatchError](err); {
	case mismatch:
		// It would heal no better as a member, and cost the others a quorum: one each
		// time, where it is started again and again.
		m.setFinal(fmt.Errorf("copy a state before joining: %w", err))
	case err != nil && ctx.Err() == nil:
		m.log.Info().Err(err).Msg("state not copied before joining")
	}
}

// copyFrom goes through the sources' state until little enough of it changes in
// the meantime, or going through it again does not help: where every step changes
// everything, the rest is everything.
func (m *Manager) copyFrom(ctx context.Context, from quorum.Sources) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Heal)
	defer cancel()
	began := time.Now()
	m.mu.Lock()
	m.mu.rank.CopyAhead()
	m.mu.phase = quorum.PhaseHealing
	m.mu.Unlock()
	m.shareToken(from.Token)
	donors, err := m.donors(ctx, from.Peers)
	if err != nil {
		return err
	}
	in, err := m.receive()
	if err != nil {
		return err
	}
	in.Mirror.SetDirect(true)
	defer in.Mirror.SetDirect(false)
	e := StateCopied{Position: from.Max}
	last := in.Mirror.Bytes()
	for e.Rounds < aheadRounds && err == nil {
		before := in.Mirror.Received()
		_, err = m.transport.Fetch(ctx, checkpoint.Any, donors, in.Mirror)
		e.Rounds++
		brought := in.Mirror.Received() - before
		if e.Rounds > 1 && brought > last/2 {
			break
		}
		if last = brought; brought <= aheadEnough {
			break
		}
	}
	e.Bytes, e.Took, e.Err = in.Mirror.Received(), time.Since(began), err
	m.log.Info().Err(err).Int64(logkey.Step, from.Max.Step).Int64(logkey.Bytes, e.Bytes).Int("rounds", e.Rounds).
		Dur(logkey.ElapsedMs, e.Took).Msg("state copied before joining")
	m.events.Emit(e)
	return err
}

// mixedLocked says whether the tensors hold parts of several states: what was
// copied ahead, and no heal has made one of.
func (m *Manager) mixedLocked() bool {
	return m.mu.heals.over || m.mu.heals.incoming != nil && m.mu.heals.incoming.Mirror.Mixed()
}

// errMixed fails a step that was begun with tensors that are no state, in a
// quorum that takes them for one: all that were ahead of it are gone. The bytes that
// are one come back before the next step, see takeBack.
var errMixed = errors.New("this replica is up to date, but has begun to copy another state")

// dropStale sets aside what was copied where the donors have other tensors by now than
// then: an optimizer has made its state meanwhile. The heal goes on, and brings all. (It
// would compare the two for ever.)
func (m *Manager) dropStale() {
	m.mu.Lock()
	stale := m.staleLocked()
	m.mu.Unlock()
	if stale {
		m.takeBack()
		m.lend()
	}
}

// staleLocked says that the donors have other tensors by now than when they were copied.
func (m *Manager) staleLocked() bool { return m.mu.heals.incoming != nil && m.mu.heals.stale }

// settleMixed gives the tensors their bytes back before a step begins, where the
// quorum that stands takes this replica for up to date: all that were ahead of it are
// gone. Where the bytes were not kept training ends: under the position that this replica
// is said to have there must be no other state.
func (m *Manager) settleMixed(ctx context.Context) error {
	m.mu.Lock()
	in := m.mu.heals.incoming
	level := m.mixedLocked() && m.mu.rank.Standing() && !m.mu.rank.Behind()
	if level && !m.cfg.HealInPlace {
		m.mu.heals.incoming = nil
		m.mu.rank.SetAside()
	}
	m.mu.Unlock()
	switch {
	case !level:
		return nil
	case m.cfg.HealInPlace:
		m.setFinal(ErrStateLost)
		return m.ended(ctx)
	}
	in.Mirror.Restore()
	m.log.Info().Msg("copied state set aside")
	return nil
}
