package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

// request is the wish for another quorum, from the moment it is needed until
// the group is ready. There is at most one. Its goroutine reports, takes up the
// answer, configures and heals, and starts over when the quorum falls again
// meanwhile. All fields are guarded by Manager.mu.
type request struct {
	kind  quorum.JoinKind
	opts  StartOptions
	sync  bool // StartQuorum waits: a heal comes before the collectives
	began time.Time
	stop  context.CancelCauseFunc // ends the round under way; nil before the first
}

// errRestarted ends a round whose wish has changed.
var errRestarted = errors.New("wish changed")

// Pauses between the rounds of a request that keeps failing; there is none
// after the first.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// stopLocked ends the round under way.
func (r *request) stopLocked(cause error) {
	if r.stop != nil {
		r.stop(cause)
	}
}

// requestLocked starts a request.
func (m *Manager) requestLocked(kind quorum.JoinKind, o StartOptions) {
	r := &request{kind: kind, opts: o, sync: m.syncLocked(), began: time.Now()}
	m.mu.request = r
	m.changedLocked()
	m.tasks.add(func(ctx context.Context) { m.pursue(ctx, r) })
}

// pursue works a request until the group is ready or training has ended.
func (m *Manager) pursue(ctx context.Context, r *request) {
	defer m.dropRequest(r)
	select {
	case <-m.linked:
	case <-ctx.Done():
		return
	}
	for pause := time.Duration(0); ; pause = min(max(firstPause, 2*pause), maxPause) {
		rctx, cancel := context.WithCancelCause(ctx)
		m.mu.Lock()
		r.stop = cancel
		if r.kind == quorum.JoinFall && m.gone() {
			m.goAwayLocked()
			m.mu.Unlock()
			cancel(nil)
			return
		}
		m.mu.Unlock()
		err := m.round(rctx, r)
		cancel(nil)
		if err == nil {
			err = m.fulfilled(r)
		}
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case isFinal(err):
			m.setFinal(err)
			return
		case errors.Is(err, errFallen), errors.Is(err, errRestarted):
			m.log.Debug().Err(err).Msg("request started over")
		default:
			m.log.Warn().Err(err).Msg("quorum not taken up")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// fulfilled ends a request whose group is ready, in one step with the look
// whether its quorum still stands: who makes it fall later finds no request, and
// makes the next one.
func (m *Manager) fulfilled(r *request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.standing {
		r.kind = quorum.JoinFall
		return errFallen
	}
	m.mu.request = nil
	m.changedLocked()
	return nil
}

// dropRequest ends a request that came to nothing.
func (m *Manager) dropRequest(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.request == r {
		m.mu.request = nil
		m.changedLocked()
	}
}

// isFinal says whether training cannot go on after err.
func isFinal(err error) bool {
	for _, sentinel := range []error{ErrDrained, ErrEvicted, ErrRefused, ErrRankLost, ErrUnreachable, ErrClosed} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	_, mismatch := errors.AsType[*checkpoint.MismatchError](err)
	return mismatch
}

// round reports once, and takes up what comes of it.
func (m *Manager) round(ctx context.Context, r *request) error {
	rep := m.reportFor(r)
	got, err := m.link.report(ctx, rep)
	if err != nil {
		return err
	}
	if got.Unanswered && got.Void {
		return m.voteFirst(ctx, r, rep.Attempt)
	}
	if got.Unanswered {
		return m.unanswered(r)
	}
	if err := m.accept(r, got, rep.Attempt); err != nil {
		return err
	}
	if err := m.configure(ctx, r); err != nil {
		return err
	}
	return m.healIfBehind(ctx, r)
}

// reportFor says what this rank knows now.
func (m *Manager) reportFor(r *request) quorum.RankReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &m.mu.attempt
	number := a.number
	if !a.open {
		number++
	}
	if m.mu.phase != quorum.PhaseSettling {
		m.mu.phase = quorum.PhaseJoining
	}
	rep := quorum.RankReport{
		Attempt:            number,
		Void:               a.open && !a.sealed && (a.ops > 0 || a.err != nil),
		GroupRank:          m.cfg.GroupRank,
		Kind:               r.kind,
		Position:           m.mu.position,
		HaveQuorumID:       m.mu.haveID,
		HaveRound:          m.mu.haveRound,
		LastDigest:         m.mu.digest,
		CheckpointMetadata: m.transport.Metadata(),
		ShrinkOnly:         r.opts.ShrinkOnly,
		InitSync:           !m.cfg.NoInitSync,
		Sync:               r.sync && !r.opts.ForbidHeal,
		FixedWorldSize:     m.cfg.FixedWorldSize,
		CommitFailures:     m.mu.failures,
		Accusations:        m.mu.accusations,
	}
	if r.kind == quorum.JoinFall && m.mu.quorum != nil {
		// The group of a quorum that fell is broken, or will be: the next one
		// needs a new id, whatever became of its steps.
		rep.CommitFailures = max(rep.CommitFailures, 1)
		rep.Fact = m.mu.claim.Fact(m.mu.position, m.mu.quorum.ID)
	}
	return rep
}

// unanswered goes on with the standing quorum, if it still stands.
func (m *Manager) unanswered(r *request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.standing || !m.mu.ready {
		r.kind = quorum.JoinFall
		return errFallen
	}
	m.mu.wanted = "" // until the lighthouse is heard again
	return nil
}

// voteFirst fails the attempt, because a sibling has ended it, and waits until
// this rank has voted, too.
func (m *Manager) voteFirst(ctx context.Context, r *request, number uint64) error {
	m.mu.Lock()
	if m.mu.attempt.number == number && m.mu.attempt.open {
		m.mu.attempt.doomed = true // a StartQuorum that waits returns
		m.failLocked(errSibling)
		m.changedLocked()
	}
	m.mu.Unlock()
	for {
		m.mu.Lock()
		over := m.mu.attempt.number != number || !m.mu.attempt.open
		if over && !m.mu.standing {
			r.kind = quorum.JoinFall
		}
		changed := m.mu.changed
		m.mu.Unlock()
		if over {
			return errRestarted
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// accept takes up an answer: it settles the step that was under way, and makes
// the answer the standing quorum.
func (m *Manager) accept(r *request, got reply, number uint64) error {
	q := got.Quorum
	a, err := quorum.Assign(q, m.id, m.cfg.GroupRank)
	m.mu.Lock()
	m.mu.haveID, m.mu.haveRound = q.ID, q.Round
	if err != nil {
		err = m.leftOutLocked(r, q, err)
		m.mu.Unlock()
		return err
	}
	forward := m.settledLocked(m.mu.claim.Settle(a.Position, m.clusterLocked()))
	if got.Void && m.mu.attempt.open && m.mu.attempt.number == number {
		m.mu.attempt.void = true
		m.failLocked(errVoid)
	}
	fresh := m.mu.quorum == nil || m.mu.quorum.ID != q.ID || m.mu.quorum.Cluster != q.Cluster
	old := m.mu.quorum
	m.mu.quorum, m.mu.assign = q, a
	m.mu.standing, m.mu.behind, m.mu.outside = true, a.Heal, false
	m.mu.accusations = nil
	m.mu.claim.Clear()
	m.mu.wanted = ""
	m.wishLocked()
	if fresh {
		m.mu.ready, m.mu.ballots, m.mu.attempt.opsHere = false, 0, 0
		m.mu.attempt.late = m.mu.attempt.open && m.mu.attempt.err != nil
	}
	var wrong error
	if !a.Heal && a.Position != m.mu.position {
		// The lighthouse counts on a state that this rank does not hold, say
		// because it had given a prepared step up.
		wrong = fmt.Errorf("quorum %d has this replica at step %d of quorum %d, it is at step %d of quorum %d: %w",
			q.ID, a.Position.Step, a.Position.QuorumID, m.mu.position.Step, m.mu.position.QuorumID, errFallen)
		m.mu.standing = false
		r.kind = quorum.JoinFall
	}
	m.mu.stats.Quorums++
	m.mu.stats.LastJoin = time.Since(r.began)
	took := m.mu.stats.LastJoin
	early := m.caughtUpLocked()
	m.changedLocked()
	m.mu.Unlock()
	m.tellFormed(q, a, forward, took)
	m.tellServed(a)
	if fresh && old != nil && m.hub != nil {
		m.tasks.add(func(ctx context.Context) {
			if err := m.hub.dropPrefix(ctx, old); err != nil {
				m.log.Debug().Err(err).Msg("old store prefix kept")
			}
		})
	}
	for _, n := range early {
		m.noticed(n)
	}
	return wrong
}

// leftOutLocked takes in an answer in which this replica is no member. Only one
// that has drained gets such an answer: it tells what became of its step.
func (m *Manager) leftOutLocked(r *request, q *quorum.Quorum, err error) error {
	r.kind = quorum.JoinFall
	m.mu.standing = false
	if !errors.Is(err, quorum.ErrNotMember) {
		return fmt.Errorf("take up quorum %d: %w", q.ID, err)
	}
	m.settledLocked(m.mu.claim.SettleOutside(q.Settlement, m.clusterLocked(), m.cfg.GroupRank))
	return fmt.Errorf("%w: quorum %d goes on without this replica", ErrDrained, q.ID)
}

// settledLocked takes in what an answer says of a promised step, and rolls it
// forward if so; it says whether it did.
func (m *Manager) settledLocked(s quorum.Settled) bool {
	if !s.Known {
		return false
	}
	m.mu.settled = &s.Forward
	m.mu.stats.Settled++
	if s.Forward {
		m.mu.stats.RolledForward++
		m.commitLocked(s.Digest)
	}
	return s.Forward
}

// clusterLocked is that of the quorum that was taken up last.
func (m *Manager) clusterLocked() string {
	if m.mu.quorum == nil {
		return ""
	}
	return m.mu.quorum.Cluster
}

// tellFormed logs and tells of an answer.
func (m *Manager) tellFormed(q *quorum.Quorum, a quorum.Assignment, forward bool, took time.Duration) {
	e := QuorumFormed{
		QuorumID: q.ID, Round: q.Round, Participants: a.Divisor, ReplicaRank: a.ReplicaRank,
		ParticipantRank: a.ParticipantRank, Settled: q.Settlement.Outcome, Reason: q.Reason, Took: took,
	}
	for _, id := range a.ReplicaIDs {
		e.Members = append(e.Members, string(id))
	}
	m.log.Info().Int64(logkey.QuorumID, q.ID).Int64(logkey.Round, q.Round).
		Strs(logkey.Members, e.Members).Int("participants", a.Divisor).
		Int(logkey.ReplicaRank, a.ReplicaRank).Int64(logkey.Step, a.Position.Step).
		Bool("heals", a.Heal).Bool("rolled_forward", forward).
		Str(logkey.Reason, q.Reason).Dur(logkey.ElapsedMs, took).Msg("quorum formed")
	m.events.emit(e)
}
