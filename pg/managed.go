package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/pg/internal/inorder"
)

// Managed shows the participants of a step as the group, whatever the members
// of the group below are, and sends errors to the manager instead of the
// caller.
//
//   - Rank and Size are those among the participants; roots, peers and slots
//     are participants' ranks, which Managed maps to the members'.
//   - A member that does not participate (it heals, or is a spare) contributes
//     the identity of the reduce op from memory of Managed's own, and receives
//     the results of all-reduce, broadcast and all-gather. Verbs with a slot
//     per rank still take part below, for the others' sake, and then give it
//     ErrNotParticipating; so do sends and receives, at once.
//   - Avg divides by the number of participants, if Op.Divisor does not say.
//   - A failed op is reported for its attempt and completes without an error;
//     its result is undefined. Every later op of an attempt whose ops lead
//     nowhere completes at once, its tensors untouched. Only ErrInvalidOp, ErrNotParticipating,
//     ErrUnsupported and ErrClosed come back to the caller.
//   - Ballots pass as they are, errors included.
//
// Submit never waits for the quorum: until the roster of an op's attempt is
// known, the op is queued, and issued in order by a goroutine that lives only
// as long as the queue is not empty. Close ends it.
type Managed struct {
	*Layer

	manager Participation
	relays  *Relays[managedOp]
	queue   *inorder.Queue[*managedRelay, *Work]
	blanks  blanks
	subs    sync.Pool // calls for the ops of batches

	// issuing is read-locked from when an op is given its roster until it is submitted below:
	// in another quorum's group that roster is not the others'.
	issuing sync.RWMutex
}

// managedOp is what Managed notes of an op.
type managedOp struct {
	attempt int64  // the attempt that the op belongs to
	roster  Roster // how ranks were mapped
	result  error  // what to return after success
	seat    *seat  // to be filled instead of the op being submitted
}

type managedRelay = Relay[managedOp]

// NewManaged puts Managed around b, which it owns from now on.
func NewManaged(b Backend, p Participation) *Managed {
	m := &Managed{Layer: NewLayer(b), manager: p}
	m.relays = NewRelays(m.settle)
	poolCalls(&m.subs)
	m.queue = inorder.New(inorder.Config[*managedRelay, *Work]{Issue: m.issue, Canceled: m.fail, Closed: ErrClosed})
	return m
}

// Configure configures the backend: for the members, not the participants. An op that is being
// issued for the quorum before comes first, and fails with it.
func (m *Managed) Configure(ctx context.Context, c Config) error {
	for !m.issuing.TryLock() {
		if err := backoff.Sleep(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("configure quorum %d: an op of the one before is still being issued: %w", c.QuorumID, err)
		}
	}
	m.issuing.Unlock()
	m.blanks.drop()
	return m.track.configure(ctx, m.backend, c)
}

// Rank is this process's rank among the participants of the attempt under way,
// or -1. It does not wait for the quorum.
func (m *Managed) Rank() int {
	r, ok := m.manager.Roster(m.manager.Attempt())
	if !ok {
		return -1
	}
	return r.ParticipantRank()
}

// Size is the number of participants of the attempt under way; 0 until it is
// known.
func (m *Managed) Size() int {
	r, _ := m.manager.Roster(m.manager.Attempt())
	return len(r.Participants)
}

// Submit starts op for the attempt under way; see Managed.
func (m *Managed) Submit(op *Op) *Work {
	r := m.relays.Begin(op)
	switch {
	case op.seat != nil:
		r.State.attempt = op.seat.attempt
	case op.Kind != KindBallot:
		r.State.attempt = m.manager.Attempt()
	}
	work := r.Work() // r may be gone when submit returns
	m.queue.Submit(r)
	return work
}

// Abort aborts the epoch below. Ops that are still queued belong to an attempt
// whose quorum is to come; they stay.
func (m *Managed) Abort(e Epoch, cause error) { m.backend.Abort(e, cause) }

// Close fails what is queued with ErrClosed, and closes the backend.
func (m *Managed) Close() error {
	m.queue.Close()
	return m.backend.Close()
}

// Redecorate puts around a subgroup's backend Managed again, whose participants are those of the subgroup's members that
// take part.
func (m *Managed) Redecorate(inner Backend, members []int) Backend {
	return NewManaged(inner, newSubRoster(m.manager, members))
}

// CancelQueued ends a queued op for a caller whose ctx ended.
func (m *Managed) CancelQueued(w *Work, cause error) bool { return m.queue.Cancel(w, cause) }

// issue submits r below, or waits for its roster if it may. It returns false if
// it would have to wait and may not.
func (m *Managed) issue(ctx context.Context, r *managedRelay, mayWait bool) bool {
	if r.Op().Kind == KindBallot {
		r.Submit(m.backend, *r.Op())
		return true
	}
	for !m.issueNow(r) {
		if !mayWait {
			return false
		}
		if err := m.waitRoster(ctx, r); err != nil {
			err = m.queue.CauseOf(err)
			if r.State.seat != nil {
				r.State.seat.err = err
			}
			m.fail(r, err)
			return true
		}
	}
	return true
}

// issueNow submits r below, or ends it. It returns false if its roster is not known.
func (m *Managed) issueNow(r *managedRelay) bool {
	m.issuing.RLock()
	if m.manager.Errored(r.State.attempt) {
		m.issuing.RUnlock()
		r.Finish(nil)
		return true
	}
	defer m.issuing.RUnlock()
	roster, ok := m.manager.Roster(r.State.attempt)
	switch {
	case !ok:
		return false
	case r.State.seat != nil:
		m.sit(r.State.seat, r.State.attempt, roster)
		r.Finish(nil)
		return true
	case r.Op().seat != nil && !r.Op().seat.holds(roster):
		r.Finish(errMoved)
		return true
	}
	op, err := m.translate(r, roster)
	if err != nil {
		m.fail(r, err)
		return true
	}
	r.Submit(m.backend, op)
	return true
}

func (m *Managed) waitRoster(ctx context.Context, r *managedRelay) error {
	if deadline := r.Op().Deadline; !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	_, err := m.manager.WaitRoster(ctx, r.State.attempt)
	return err
}

// fail ends r, which was not submitted.
func (m *Managed) fail(r *managedRelay, err error) { r.Finish(m.judge(r, err)) }

// settle decides what the caller sees of an op that is done below.
func (m *Managed) settle(r *managedRelay, err error) error {
	if r.Op().Kind == KindBallot {
		return err
	}
	if err != nil {
		return m.judge(r, err)
	}
	if !r.State.roster.everybody() {
		r.Op().Each(func(op *Op) {
			if op.Kind == KindRecv {
				op.Source = r.State.roster.participantOf(op.Source)
			}
		})
	}
	return r.State.result
}

// judge returns the caller's own mistakes to the caller and reports all else.
func (m *Managed) judge(r *managedRelay, err error) error {
	own := errors.Is(err, ErrInvalidOp) || errors.Is(err, ErrNotParticipating) ||
		errors.Is(err, ErrUnsupported) || errors.Is(err, ErrClosed)
	if own && !errors.Is(err, ErrAborted) {
		return err
	}
	m.manager.ReportError(r.State.attempt, err)
	return nil
}

// setRound tells the backend below the round of the ops to come, past
// decorators that do not know of rounds.
func setRound(b Backend, round int64) {
	if r, ok := find[Rounder](b); ok {
		r.SetRound(round)
	}
}
