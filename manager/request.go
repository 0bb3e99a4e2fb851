package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/quorum"
)

// request works the wish of quorum.Rank for another quorum, from the moment it is
// needed until the group is ready. There is at most one. Its goroutine reports,
// takes up the answer, configures and heals, and starts over when the quorum falls
// again meanwhile. All fields are guarded by Manager.mu.
type request struct {
	opts  StartOptions
	sync  bool // a heal comes before the collectives, see quorum.Rank.Syncs
	began time.Time
	stop  context.CancelCauseFunc // ends the round under way; nil before the first

	pauses backoff.Backoff // between its rounds; pursue's alone
}

// errRestarted ends a round whose wish has changed.
var errRestarted = errors.New("wish changed")

// errTrainerAway ends a report that waits for others, because the trainer that it
// was made beside does not move.
var errTrainerAway = errors.New("trainer does not move")

// Pauses between the rounds of a request that keeps failing; there is none
// after the first. The others, whose quorum fell with a round that failed, wait for
// this replica's next join meanwhile (L1: at most 0.5 s for one cause). How often a
// round may fail is the lighthouse's to bound. After a round that lasted longer than
// the longest pause they begin anew: there is nothing to slow down. (A newcomer's trainer
// gave a StartQuorum up, and its join with it, in the moment in which that was answered.
// The others had it in their quorum, and waited out the longest pause for it.)
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// stopLocked ends the round under way.
func (r *request) stopLocked(cause error) {
	if r.stop != nil {
		r.stop(cause)
	}
}

// needLocked requests the next quorum if this rank has none, and no request either.
func (m *Manager) needLocked(o StartOptions) {
	if m.mu.final == nil && m.mu.rank.Need() {
		m.requestLocked(o)
	}
}

// askLocked asks for another quorum while this one stands.
func (m *Manager) askLocked() {
	if m.mu.final == nil && m.mu.rank.Ask() {
		m.requestLocked(StartOptions{})
	}
}

// requestLocked starts to work a new wish.
func (m *Manager) requestLocked(o StartOptions) {
	r := &request{opts: o, sync: m.mu.rank.Syncs(), began: time.Now(), pauses: backoff.Backoff{First: firstPause, Most: maxPause}}
	m.mu.request = r
	m.mu.Broadcast()
	m.tasks.Add(func(ctx context.Context) { m.pursue(ctx, r) })
}

// pursue works a request until the group is ready or training has ended.
func (m *Manager) pursue(ctx context.Context, r *request) {
	defer m.dropRequest(r)
	select {
	case <-m.linked:
	case <-ctx.Done():
		return
	}
	for again := false; ; again = true {
		began := time.Now()
		rctx, cancel := context.WithCancelCause(ctx)
		m.mu.Lock()
		r.stop = cancel
		if !m.mu.rank.Asks() && m.gone() && m.goAwayLocked() {
			m.mu.Unlock()
			cancel(nil)
			return
		}
		m.mu.Unlock()
		err := m.round(rctx, r)
		cancel(nil)
		if err == nil {
			err = m.fulfilled()
		}
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case isFinal(err):
			m.setFinal(err)
			return
		case errors.Is(err, errFallen), errors.Is(err, errRestarted), errors.Is(err, errTrainerAway):
			m.log.Debug().Err(err).Msg("request started over")
		default:
			m.log.Warn().Err(err).Msg("quorum not taken up")
		}
		if time.Since(began) >= maxPause {
			r.pauses.Reset()
		}
		if again && r.pauses.Wait(ctx) != nil {
			return
		}
	}
}

// fulfilled ends a request whose group is ready, in one step with the look
// whether its quorum still stands: who makes it fall later finds no request, and
// makes the next one.
func (m *Manager) fulfilled() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.rank.Fulfil() {
		return errFallen
	}
	m.mu.request = nil
	m.mu.Broadcast()
	return nil
}

// dropRequest ends a request that came to nothing.
func (m *Manager) dropRequest(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.request == r {
		m.mu.request = nil
		m.mu.rank.Drop()
		m.mu.Broadcast()
	}
}

// isFinal says whether training cannot go on after err.
func isFinal(err error) bool {
	_, mismatch := errors.AsType[*safetensors.MismatchError](err)
	return mismatch || final.Is(err)
}

// round reports once, and takes up what comes of it.
func (m *Manager) round(ctx context.Context, r *request) error {
	rep := m.reportFor(r)
	got, err := m.answerTo(ctx, rep)
	if err != nil {
		return err
	}
	if got.Unanswered {
		return m.unanswered()
	}
	failpoint.At(ctx, failpoint.JoinAfter)
	if err := m.accept(r, got); err != nil {
		return err
	}
	// It was let in: should the quorum fall at once, the others wait for its next join. (It
	// had tried for minutes, while it was refused, and the pause was the longest.)
	r.pauses.Reset()
	if err := m.configure(ctx); err != nil {
		return err
	}
	return m.healIfBehind(ctx, r)
}

// answerTo reports, and waits for the answer for as long as the trainer is there (L1);
// it ends with errTrainerAway when the trainer goes.
// Whether it is there is not known yet where a quorum falls right after it began to hang.
// Its join would wait for newcomers that copy its state before they join, and they
// for it, which lends its state to nobody; or its siblings would wait for its vote:
// and who has joined, or moves with one of its ranks, is never stuck.
func (m *Manager) answerTo(ctx context.Context, rep quorum.RankReport) (replica.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup // it ends with ctx
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		m.watchTrainer(ctx, func() bool { return !m.mu.rank.Asks() }, func() bool {
			cancel(errTrainerAway) // and the next round looks again, once the report is withdrawn
			return true
		})
	})
	failpoint.At(ctx, failpoint.JoinBefore)
	got, err := m.link.Report(ctx, rep)
	if err == nil && got.Unanswered && got.VoteFirst {
		err = m.voteFirst(ctx, rep.Attempt, got.Attempt)
	}
	if err != nil && errors.Is(context.Cause(ctx), errTrainerAway) {
		err = errTrainerAway
	}
	return got, err
}

// reportFor says what this rank knows now.
func (m *Manager) reportFor(r *request) quorum.RankReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.phase != quorum.PhaseSettling {
		m.mu.phase = quorum.PhaseJoining
	}
	return m.mu.rank.Report(quorum.ReportOptions{
		ShrinkOnly: r.opts.ShrinkOnly, Sync: r.sync && !r.opts.ForbidHeal,
		CheckpointMetadata: m.transport.Metadata(), Fall: m.mu.incident.Fall(time.Now()),
	})
}

// unanswered goes on with the standing quorum, if it still stands.
func (m *Manager) unanswered() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.rank.Unanswered() {
		return errFallen
	}
	return nil
}

// voteFirst fails the attempt, because a sibling has ended it, and waits until
// this rank has voted, too. Its next attempt is that of the siblings.
func (m *Manager) voteFirst(ctx context.Context, number, next uint64) error {
	m.mu.Lock()
	m.mu.rank.CatchUp(next)
	if m.mu.rank.Trying(number) {
		m.mu.attempt.siblingEnded = true // a StartQuorum that waits returns
		m.failLocked(errSibling)
		m.mu.Broadcast()
	}
	m.mu.Unlock()
	if err := m.mu.Await(ctx, 0, func() bool { return !m.mu.rank.Trying(number) }); err != nil {
		return err
	}
	return errRestarted
}

// accept takes up an answer.
func (m *Manager) accept(r *request, got replica.Reply) error {
	q := got.Quorum
	m.mu.Lock()
	m.mu.rank.CatchUp(got.Attempt)
	before := m.mu.rank.QuorumID()
	t, err := m.mu.rank.Take(m.id, q, got.VoidAttempt)
	if t.Settled.Known {
		m.mu.stats.Settled++
	}
	if t.Settled.Forward {
		m.mu.stats.RolledForward++
		m.mu.stats.Commits++
	}
	if err != nil {
		m.mu.Broadcast()
		m.mu.Unlock()
		if t.Left {
			return fmt.Errorf("%w: quorum %d goes on without this replica", ErrDrained, q.ID)
		}
		return fmt.Errorf("take up quorum %d: %w", q.ID, err)
	}
	if t.Void {
		m.failLocked(errVoid)
	}
	if t.Fell {
		m.mu.Broadcast()
		m.mu.Unlock()
		return fmt.Errorf("quorum %d has fallen here before its answer came: %w", q.ID, errFallen)
	}
	if t.Shared != nil {
		m.reportLocked(sharedOut(*t.Shared, m.mu.rank.Shares()))
	}
	a, at := m.mu.rank.Assignment(), m.mu.rank.Position()
	m.mu.stats.Quorums++
	m.mu.stats.LastJoin = time.Since(r.began)
	took := m.mu.stats.LastJoin
	m.mu.Broadcast()
	m.mu.Unlock()
	m.tellFormed(q, a, t.Settled.Forward, took, before)
	m.tellServed(a)
	if t.Fresh && t.Old != nil && m.replica != nil {
		m.tasks.Add(func(ctx context.Context) {
			if err := m.replica.DropPrefix(ctx, t.Old); err != nil {
				m.log.Debug().Err(err).Msg("old store prefix kept")
			}
		})
	}
	for _, n := range t.Early {
		m.takeNotice(n)
	}
	if t.Wrong {
		return fmt.Errorf("quorum %d has this replica at step %d of quorum %d, it is at step %d of quorum %d: %w",
			q.ID, a.Position.Step, a.Position.QuorumID, at.Step, at.QuorumID, errFallen)
	}
	return nil
}

// tellFormed logs and tells of an answer, and of which quorum it comes after.
func (m *Manager) tellFormed(q *quorum.Quorum, a *quorum.Assignment, forward bool, took time.Duration, after int64) {
	e := QuorumFormed{
		QuorumID: q.ID, Round: q.Round, Participants: a.Divisor, ReplicaRank: a.ReplicaRank,
		ParticipantRank: a.ParticipantRank, Settled: q.Settlement.Outcome, Reason: q.Reason, Took: took,
	}
	for _, id := range a.ReplicaIDs {
		e.Members = append(e.Members, string(id))
	}
	line := m.log.Info().Int64(logkey.QuorumID, q.ID).Int64(logkey.Round, q.Round)
	if after != 0 && after != q.ID {
		line.Int64(logkey.After, after)
	}
	line.Strs(logkey.Members, e.Members).Int("participants", a.Divisor).
		Int(logkey.ReplicaRank, a.ReplicaRank).Int64(logkey.Step, a.Position.Step).
		Bool("heals", a.Heal).Bool("rolled_forward", forward).
		Str(logkey.Reason, q.Reason).Dur(logkey.ElapsedMs, took).Msg("quorum formed")
	if a.ReplicaWorldSize > 1 && m.states.Empty() {
		m.unhealable.Do(func() {
			m.log.Warn().Int64(logkey.QuorumID, q.ID).Msg("nothing is registered: a replica that comes, or comes back, takes over no state " +
				"and trains on from its own; call Manager.Register before Run")
		})
	}
	m.events.Emit(e)
}
