package pg

import (
	"context"
	"errors"
	"sync"
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
	layer

	manager Participation
	relays  *sync.Pool
	queue   queue
	blanks  blanks
	subs    sync.Pool // calls for the ops of batches
}

// NewManaged puts Managed around b, which it owns from now on.
func NewManaged(b Backend, p Participation) *Managed {
	m := &Managed{layer: layer{backend: b}, manager: p}
	m.relays = newRelayPool(m.settle)
	m.subs.New = func() any {
		var c *call
		c = newCall(func() { m.subs.Put(c) })
		return c
	}
	m.queue.issue, m.queue.canceled = m.issue, m.fail
	return m
}

// Configure configures the backend: for the members, not the participants.
func (m *Managed) Configure(ctx context.Context, c Config) error {
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
	r := begin(m.relays, op)
	switch {
	case op.seat != nil:
		r.attempt = op.seat.attempt
	case op.Kind != KindBallot:
		r.attempt = m.manager.Attempt()
	}
	work := r.work // r may be gone when submit returns
	m.queue.submit(r)
	return work
}

// Abort aborts the epoch below. Ops that are still queued belong to an attempt
// whose quorum is to come; they stay.
func (m *Managed) Abort(e Epoch, cause error) { m.backend.Abort(e, cause) }

// Close fails what is queued with ErrClosed, and closes the backend.
func (m *Managed) Close() error {
	m.queue.close()
	return m.backend.Close()
}

// Redecorate puts around a subgroup's backend Managed again, whose participants are those of the subgroup's members that
// take part.
func (m *Managed) Redecorate(inner Backend, members []int) Backend {
	return NewManaged(inner, newSubRoster(m.manager, members))
}

// cancelQueued ends a queued op for a caller whose ctx ended.
func (m *Managed) cancelQueued(w *Work, cause error) bool { return m.queue.cancel(w, cause) }

// issue submits r below, or waits for its roster if it may. It returns false if
// it would have to wait and may not.
func (m *Managed) issue(ctx context.Context, r *relay, mayWait bool) bool {
	if r.outer.Kind == KindBallot {
		r.submit(m.backend, *r.outer)
		return true
	}
	if m.manager.Errored(r.attempt) {
		r.finish(nil)
		return true
	}
	roster, ok := m.manager.Roster(r.attempt)
	if !ok {
		if !mayWait {
			return false
		}
		var err error
		if roster, err = m.waitRoster(ctx, r); err != nil {
			err = m.queue.causeOf(err)
			if r.seat != nil {
				r.seat.err = err
			}
			m.fail(r, err)
			return true
		}
	}
	switch {
	case r.seat != nil:
		m.sit(r.seat, r.attempt, roster)
		r.finish(nil)
		return true
	case r.outer.seat != nil && !r.outer.seat.holds(roster):
		r.finish(errMoved)
		return true
	}
	op, err := m.translate(r, roster)
	if err != nil {
		m.fail(r, err)
		return true
	}
	r.submit(m.backend, op)
	return true
}

func (m *Managed) waitRoster(ctx context.Context, r *relay) (Roster, error) {
	if deadline := r.outer.Deadline; !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return m.manager.WaitRoster(ctx, r.attempt)
}

// fail ends r, which was not submitted.
func (m *Managed) fail(r *relay, err error) { r.finish(m.judge(r, err)) }

// settle decides what the caller sees of an op that is done below.
func (m *Managed) settle(r *relay, err error) error {
	if r.outer.Kind == KindBallot {
		return err
	}
	if err != nil {
		return m.judge(r, err)
	}
	if !r.roster.everybody() {
		r.outer.Each(func(op *Op) {
			if op.Kind == KindRecv {
				op.Source = r.roster.participantOf(op.Source)
			}
		})
	}
	return r.result
}

// judge returns the caller's own mistakes to the caller and reports all else.
func (m *Managed) judge(r *relay, err error) error {
	own := errors.Is(err, ErrInvalidOp) || errors.Is(err, ErrNotParticipating) ||
		errors.Is(err, ErrUnsupported) || errors.Is(err, ErrClosed)
	if own && !errors.Is(err, ErrAborted) {
		return err
	}
	m.manager.ReportError(r.attempt, err)
	return nil
}

// setRound tells the backend below the round of the ops to come, past
// decorators that do not know of rounds.
func setRound(b Backend, round int64) {
	if r, ok := find[Rounder](b); ok {
		r.SetRound(round)
	}
}
