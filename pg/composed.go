package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/tensor"
)

// seat is this process's place in a group, and who else sits in it: all that a verb which
// is made of several ops may know of the group. Under Managed it is of one attempt at a
// step, without it of one epoch. The rank is -1 in a member that does not participate.
type seat struct {
	rank, size int
	epoch      Epoch
	attempt    int64  // under Managed
	roster     Roster // under Managed; else of all ranks

	known bool  // the rest is filled
	err   error // why it is not
}

// seatIn is the seat of a rank in a group that is configured as c says.
func seatIn(c Config) seat {
	s := seat{rank: c.Rank, size: c.WorldSize(), epoch: c.Epoch(), known: true}
	s.roster = Roster{Rank: c.Rank, WorldSize: s.size, Participants: firstRanks(s.size)}
	return s
}

// holds tells whether the group is still that of the seat.
func (s *seat) holds(r Roster) bool {
	return s.roster.Rank == r.Rank && s.roster.WorldSize == r.WorldSize && slices.Equal(s.roster.Participants, r.Participants)
}

// below are the ranks of the group below of ranks of the group.
func (s *seat) below(ranks []int) []int {
	members := make([]int, len(ranks))
	for i, r := range ranks {
		members[i] = s.roster.Participants[r]
	}
	return members
}

// errMoved ends an op of a composed verb whose seat holds no more when the op runs.
var errMoved = fmt.Errorf("%w: other ranks take part than when the verb began", ErrAborted)

// Composed is a verb that is made of several ops, under way; see Group.Compose. Its
// sizes, roots and slots come from here, never from Group.Rank and Group.Size, and all
// its ops run among the ranks of Roster or not at all. It is for one goroutine.
type Composed struct {
	seat

	g      *Group
	issued bool // an op of it has run, or failed to
}

// Compose runs body, a verb made of several ops, once it is known who takes part: under
// Managed it waits for the quorum. All ranks compose the same verb, in the order of their
// other ops, and body returns the errors of its ops as they are or wrapped.
//
// Body starts anew if the quorum falls before its first op runs, and nothing else was
// issued in this attempt: the attempt goes on in the next quorum then. Whatever else fails
// is an error on this rank, and under Managed reported as well, so that the step is
// discarded.
//
// Errors: those of body; ErrUnconfigured, ErrNotMember, ErrNotParticipating, ErrAborted,
// ErrClosed and ctx's cause if it does not become known who takes part.
func (g *Group) Compose(ctx context.Context, body func(c *Composed) error) error {
	for {
		s, err := g.takeSeat(ctx)
		if err != nil {
			return err
		}
		c := &Composed{seat: s, g: g}
		err = body(c)
		if !errors.Is(err, errMoved) {
			return err
		}
		if c.issued {
			if m, ok := find[*Managed](g.backend); ok {
				m.manager.ReportError(s.attempt, err)
			}
			return err
		}
	}
}

// takeSeat waits until it is known who takes part. Errors: ErrUnconfigured,
// ErrNotMember, ErrNotParticipating, ErrAborted, ErrClosed, ctx's cause.
func (g *Group) takeSeat(ctx context.Context) (seat, error) {
	if over := g.sub.over(); over != nil {
		return seat{}, over
	}
	if m, ok := find[*Managed](g.backend); ok {
		return m.takeSeat(ctx)
	}
	c, ok := g.Config()
	if ok && c.WorldSize() > 0 {
		return seatIn(c), nil
	}
	if err := g.backend.Err(); err != nil {
		return seat{}, err
	}
	return seat{}, fmt.Errorf("%w through this Group", ErrUnconfigured)
}

// takeSeat waits in the queue of ops, as an op does that comes next, for the roster of the
// attempt under way. What ends its wait ends the attempt.
func (m *Managed) takeSeat(ctx context.Context) (seat, error) {
	s := &seat{}
	op := &Op{Kind: KindBarrier} // submitted nowhere
	op.Deadline, _ = ctx.Deadline()
	r := m.relays.Begin(op)
	r.State.seat, r.State.attempt = s, m.manager.Attempt()
	attempt, work := r.State.attempt, r.Work()
	m.queue.Submit(r)
	select {
	case <-work.Done():
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if m.queue.Cancel(work, cause) {
			<-work.Done() // reported
		} else {
			m.manager.ReportError(attempt, cause) // between two holders; it touches nothing but s
		}
		return seat{}, cause
	}
	switch {
	case work.Err() != nil:
		return seat{}, work.Err()
	case !s.known:
		return seat{}, m.discarded(s.err)
	case s.size == 0:
		return seat{}, fmt.Errorf("%w: no member does", ErrNotParticipating)
	}
	return *s, nil
}

// sit fills a seat for the roster of an attempt.
func (m *Managed) sit(s *seat, attempt int64, r Roster) {
	*s = seat{rank: r.ParticipantRank(), size: len(r.Participants), attempt: attempt, roster: r, known: true}
	s.epoch, _ = m.epochs()
}

// discarded says that an attempt has failed, for verbs whose results would be made of
// memory that no peer has written. Cause may be nil.
func (m *Managed) discarded(cause error) error {
	const what = "the step is discarded"
	if cause == nil {
		cause = m.backend.Err()
	}
	switch {
	case cause == nil:
		return fmt.Errorf("%w: %s", ErrAborted, what)
	case errors.Is(cause, ErrAborted):
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%w: %s: %w", ErrAborted, what, cause)
}

// Rank is this process's rank among those that take part; -1 in a member that does not.
func (c *Composed) Rank() int { return c.rank }

// Size is the number of ranks that take part, 1 or more.
func (c *Composed) Size() int { return c.size }

// Roster tells who takes part, by the ranks of the group below: without Managed all.
func (c *Composed) Roster() Roster { return c.roster }

// Epoch is that of the group: ranks of Roster are the same processes in verbs of one epoch alone.
func (c *Composed) Epoch() Epoch { return c.epoch }

// Do runs an op of the verb. Unlike a verb of one op it also returns what a decorator
// keeps from the caller: the memory of an op that failed would be taken for what a
// peer sent. In a group that has a backend for a device alone, the op's host tensors go
// through memory of the device (see Stager); a copy that fails breaks the group.
func (c *Composed) Do(ctx context.Context, op *Op) error {
	if d, ok := ctx.Deadline(); ok {
		op.Deadline = d
	}
	if ok, err := c.staged(ctx, op); ok {
		return err
	}
	return c.Wait(ctx, c.Start(op))
}

// Start starts an op of the verb and returns without waiting for a peer.
func (c *Composed) Start(op *Op) *Work {
	op.seat = &c.seat
	return c.g.submit(op)
}

// Wait waits for an op that Start has started, as Group.Wait does; the error is as
// that of Do.
func (c *Composed) Wait(ctx context.Context, w *Work) error {
	return c.seen(c.g.Wait(ctx, w))
}

// Result is the error of an op that Start has started and that is done, as that of Do.
func (c *Composed) Result(w *Work) error { return c.seen(w.Err()) }

// seen is the error of an op of the verb that is done, or what was kept from the caller.
func (c *Composed) seen(err error) error {
	if errors.Is(err, errMoved) {
		return err
	}
	c.issued = true
	if err != nil {
		return err
	}
	if m, ok := find[*Managed](c.g.backend); ok {
		if m.manager.Errored(c.attempt) {
			return m.discarded(nil)
		}
		return nil
	}
	if s, ok := find[*Swallow](c.g.backend); ok {
		return s.swallowed()
	}
	return nil // not the group's error: a peer that is through may have left by now
}

// Broadcast is Group.Broadcast as an op of the verb.
func (c *Composed) Broadcast(ctx context.Context, t tensor.Tensor, root int) error {
	return c.Do(ctx, &Op{Kind: KindBroadcast, Root: root, In: []tensor.Tensor{t}, Out: []tensor.Tensor{t}})
}

// AllGatherIntoTensor is Group.AllGatherIntoTensor as an op of the verb.
func (c *Composed) AllGatherIntoTensor(ctx context.Context, in, out tensor.Tensor) error {
	return c.Do(ctx, &Op{Kind: KindAllGather, Flat: true, In: []tensor.Tensor{in}, Out: []tensor.Tensor{out}})
}
