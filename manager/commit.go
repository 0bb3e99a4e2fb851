package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/manager/internal/incident"
	"github.com/skerry-ft/skerry/manager/internal/metrics"
	"github.com/skerry-ft/skerry/quorum"
)

// verdict is what became of an attempt.
type verdict struct {
	quorum.Resolution
	settled bool // by the lighthouse
	cause   error
	id      int64 // of the quorum it ran in; 0: none
}

// ShouldCommit ends a step and says whether the optimizer may apply it. All
// replicas get the same answer for the same step, but for one that was behind, or
// gave up waiting for its settlement: it gets false, and heals if the others committed.
//
// It waits for the collectives, the heal and the quorum, exchanges ballots with
// the other replicas, votes with the other ranks of this one, and, if ballots
// were lost after this rank's was given, waits for the lighthouse to settle the
// step. Everything it waits for ends by a timeout of Timeouts, or with ctx.
//
// A false is not an error: the step was discarded everywhere, or was this
// replica's alone; go on with StartQuorum. Errors end training: those of
// StartQuorum, and ErrMaxRetries.
func (m *Manager) ShouldCommit(ctx context.Context) (bool, error) {
	defer m.enter()()
	defer m.takeBack()
	m.mu.Lock()
	switch {
	case m.mu.final != nil:
		m.mu.Unlock()
		return false, m.ended(ctx)
	case !m.openLocked():
		m.mu.Unlock()
		return false, errors.New("manager: ShouldCommit without StartQuorum")
	}
	m.mu.attempt.closing = true
	m.mu.rank.Close()
	m.mu.phase = quorum.PhaseBalloting
	m.mu.Unlock()
	defer m.comparison.End()  // from here on
	defer m.transport.Pause() // the trainer may change its tensors
	v, err := m.decide(ctx)
	if err != nil {
		return false, m.abandon(ctx, err)
	}
	return m.conclude(ctx, v)
}

// decide finds out what becomes of the attempt. It returns no error once the
// step is committed.
func (m *Manager) decide(ctx context.Context) (verdict, error) {
	unhealed, err := m.gather(ctx)
	if err != nil {
		return verdict{}, err
	}
	return m.poll(ctx, m.exchange(ctx, unhealed))
}

// gather waits for what comes before the ballot: the quorum, the collectives,
// the heal. unhealed says that this rank is behind and stays so.
func (m *Manager) gather(ctx context.Context) (unhealed bool, err error) {
	if err := m.awaitQuorum(ctx); err != nil {
		return false, err
	}
	if err := m.tracked.wait(ctx); err != nil {
		return false, fmt.Errorf("wait for the step's collectives: %w", err)
	}
	failpoint.At(ctx, failpoint.AllReduceAfter)
	return m.healBesides(ctx)
}

// poll votes, and does what the replica's ranks came to.
func (m *Manager) poll(ctx context.Context, b balloted) (verdict, error) {
	vctx := ctx
	if m.cfg.GroupWorldSize > 1 { // a rank alone has decided when it has voted
		limited, cancel := context.WithTimeout(ctx, m.timeouts.Vote)
		defer cancel()
		vctx = limited
	}
	m.mu.Lock()
	m.mu.rank.Voted()
	m.mu.Unlock()
	failpoint.At(ctx, failpoint.VoteBefore)
	result, err := m.link.Vote(vctx, b.vote)
	if err != nil {
		if isFinal(err) {
			m.setFinal(err)
		}
		return verdict{}, fmt.Errorf("vote on step %d: %w", b.vote.Step, err)
	}
	failpoint.At(ctx, failpoint.VoteAfter)
	m.mu.Lock()
	v := verdict{Resolution: m.mu.rank.Resolve(result, b.vote), cause: b.cause, id: b.vote.QuorumID}
	if v.Commit {
		m.mu.stats.Commits++
	}
	m.mu.Unlock()
	switch {
	case v.Awaits:
		return m.settle(ctx, v)
	case v.Sibling && v.cause == nil:
		v.cause = errSibling
	}
	return v, nil
}

// awaitQuorum waits for the request that this attempt needs. When it takes too
// long, the attempt fails, and the request goes on. An attempt that has failed
// needs none: its siblings wait for its vote, and may have to report first.
func (m *Manager) awaitQuorum(ctx context.Context) error {
	err := m.await(ctx, "the quorum", m.timeouts.Quorum, func() bool { return m.mu.request == nil || m.mu.attempt.cut })
	if errors.Is(err, monitor.ErrTimeout) {
		m.fail(m.noQuorum())
		return nil
	}
	return err
}

// healBesides loads the state that came beside the collectives; unhealed says
// that this rank is behind and stays so.
func (m *Manager) healBesides(ctx context.Context) (unhealed bool, err error) {
	m.mu.Lock()
	h, behind, usable := m.mu.heals.current, m.mu.rank.Behind(), m.mu.rank.Usable()
	m.mu.Unlock()
	if h == nil || !usable {
		return behind, nil
	}
	if err := m.load(ctx, h); err != nil {
		return true, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rank.HealedBeside(), nil
}

// abandon ends an attempt whose outcome this rank will not wait for. What the
// group still does for it is cut off, so that the trainer has its tensors back.
// A promise stays one: it is given up, which is not the same as refused. The
// missing vote is cast: without it the siblings would wait, and the replica's
// count of attempts would stand still for ever.
func (m *Manager) abandon(ctx context.Context, err error) error {
	m.mu.Lock()
	left, id := m.mu.rank.Abandon(), m.mu.rank.QuorumID()
	m.failLocked(err)
	if r := m.mu.request; r != nil {
		r.stopLocked(errRestarted) // what it reported is no longer so
	}
	m.mu.Broadcast()
	m.mu.Unlock()
	if left.Falls {
		m.fall(id, err)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timeouts.Call)
	defer cancel()
	if werr := m.tracked.wait(late); werr != nil {
		m.log.Warn().Err(werr).Msg("collectives of an abandoned step do not end")
	}
	if left.Votes {
		m.castMissing(late, err)
	}
	m.mu.Lock()
	m.endAttemptLocked()
	m.countLocked(metrics.Redone)
	final := m.mu.final
	m.mu.Broadcast()
	m.mu.Unlock()
	m.renew()
	if final != nil {
		return m.ended(ctx)
	}
	return err
}

// castMissing votes for an attempt that ends without a ballot.
func (m *Manager) castMissing(ctx context.Context, cause error) {
	m.mu.Lock()
	v := m.mu.rank.Missing()
	final := m.mu.final
	m.mu.Unlock()
	if final != nil {
		return
	}
	if v.Broken {
		// Whatever the others vote, the attempt is discarded and the quorum falls: it is
		// decided now. (The call waited for a sibling in its forward pass, with a ctx that
		// had ended.)
		v.Last = true
		m.fall(v.QuorumID, cause)
	}
	if _, err := m.link.Vote(ctx, v); err != nil {
		m.log.Debug().Err(err).Int64(logkey.Step, v.Step).Msg("vote of an abandoned attempt not cast")
	}
}

// endAttemptLocked closes the attempt: between two steps a fall is seen to at
// once again.
func (m *Manager) endAttemptLocked() {
	m.mu.rank.Leave()
	m.mu.attempt.closing, m.mu.attempt.waiting = false, false
	m.mu.phase = quorum.PhaseIdle
}

// countLocked counts the end of an attempt: here and nowhere else, so that Stats, the
// heartbeat, the metrics and the story of an incident tell of as many discards.
func (m *Manager) countLocked(kind metrics.Kind) (cost incident.Cost, over bool) {
	discarded := kind == metrics.Redone
	if discarded {
		m.mu.stats.Discards++
	}
	m.metrics.Ended(kind)
	return m.mu.incident.Ended(time.Now(), !discarded)
}

// conclude ends the attempt.
func (m *Manager) conclude(ctx context.Context, v verdict) (bool, error) {
	if v.Commit {
		failpoint.At(ctx, failpoint.CommitBefore)
	}
	m.mu.Lock()
	a := *m.mu.rank.Assignment()
	e := m.mu.rank.End(v.Resolution)
	m.mu.attempt.changes = v.Stands && v.Wanted
	cost, over := m.countLocked(spentOn(v.Commit, a.ParticipantRank >= 0))
	m.endAttemptLocked()
	if e.Asks {
		m.askLocked()
	}
	retries := m.mu.rank.Discarded()
	m.mu.Broadcast()
	m.mu.Unlock()
	if v.Commit {
		failpoint.At(ctx, failpoint.CommitDuring)
	}
	m.tellStep(v, e.Step, a.Divisor)
	if over {
		m.log.Info().Int64(logkey.Step, e.Step).Int64(logkey.QuorumID, v.id).Int64(logkey.After, cost.QuorumID).
			Int("discarded", cost.Discarded).Dur(logkey.ElapsedMs, cost.Took).Msg("training goes on")
	}
	if !v.Stands && v.id != 0 {
		m.fall(v.id, cmp.Or(v.cause, errFallen))
	}
	m.renew()
	switch {
	case v.Commit:
		failpoint.At(ctx, failpoint.CommitAfter)
		return true, nil
	case m.cfg.MaxRetries > 0 && retries >= m.cfg.MaxRetries:
		err := fmt.Errorf("%w: %d at step %d: %w", ErrMaxRetries, retries, e.Step, v.cause)
		m.setFinal(err)
		return false, err
	}
	return false, nil
}

// renew asks for the next quorum at once if this one has fallen, instead of at
// the next StartQuorum.
func (m *Manager) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.needLocked(StartOptions{})
}

// tellStep logs and tells of a step's end.
func (m *Manager) tellStep(v verdict, step int64, participants int) {
	if v.Commit {
		m.log.Debug().Int64(logkey.Step, step).Int64(logkey.QuorumID, v.id).Bool("settled", v.settled).
			Msg("step committed")
		m.events.Emit(StepCommitted{Step: step, QuorumID: v.id, Participants: participants, Settled: v.settled})
		return
	}
	m.log.Info().Err(v.cause).Int64(logkey.Step, step).Int64(logkey.QuorumID, v.id).Bool("settled", v.settled).
		Msg("step discarded")
	m.events.Emit(StepDiscarded{Step: step, QuorumID: v.id, Settled: v.settled, Cause: v.cause})
}
