package debug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/internal/inorder"
)

// Check compares what the ranks call before they run it, as torch.distributed
// does under TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective the ranks
// exchange a fingerprint of it (kind, place in the order, dtype, shapes, reduce
// op, root, device), and run it only if all agree.
//
//   - If they do not, the op fails on every rank with pg.ErrMismatch, and the
//     message names two ranks and what each of them called.
//   - If a rank does not come before the op's deadline, the op fails with
//     context.DeadlineExceeded, and the message names the ranks that are
//     missing: a monitored barrier before every collective.
//
// Either way the group is broken, as after any error.
//
// Fingerprints travel as ballots of the backend below, which every backend has
// whatever memory its tensors lie in; so nothing of the op's own tensors is
// touched before the ranks agree. Op.Seq, and the digests of the caller's own
// ballots, are what they would be without Check. All ranks must use it, or none.
//
// Sends and receives pass as they are: they are matched by the backend, which
// compares dtype and length of every message itself. On the CPU they do not
// wait for collectives; on a device, whose stream runs both, they keep the order
// of the calls.
//
// Submit does not wait: ops are queued, and issued by a goroutine that lives as
// long as the queue is not empty. Every op costs an exchange and allocates, so
// this is for finding mistakes.
//
// Safe for concurrent use, but for SetRound while ops are under way, if any of them is a
// send or a receive: those do not wait for the collectives of the round before.
type Check struct {
	*pg.Layer

	relays *pg.Relays[checkedOp]
	queue  *inorder.Queue[*checkRelay, *pg.Work]

	mu struct {
		sync.Mutex

		config  pg.Config
		round   int64 // of the ops to come
		applied int64 // of the last op issued
		issuing int   // ops queued, or being issued
		idle    chan struct{}
		closed  bool
	}

	// Used by whoever issues, one at a time.
	seq      uint64 // collectives issued in seqOf
	seqOf    pg.Epoch
	unfolded int         // chunks digested since the last exchange
	digests  []pg.Digest // by rank, since the last ballot; nil: none yet
}

// checkedOp is what Check notes of an op.
type checkedOp struct {
	seq     uint64      // how it is numbered; 0: not checked
	epoch   pg.Epoch    // at Submit
	round   int64       // at Submit
	digests []pg.Digest // of what a ballot covers, by rank
}

type checkRelay = pg.Relay[checkedOp]

// NewCheck puts Check around b, which it owns from now on.
func NewCheck(b pg.Backend) *Check {
	c := &Check{Layer: pg.NewLayer(b)}
	c.relays = pg.NewRelays(c.settle)
	c.queue = inorder.New(inorder.Config[*checkRelay, *pg.Work]{Issue: c.issue, Canceled: c.canceled, Closed: pg.ErrClosed})
	return c
}

// SetRound sets the round of the ops submitted after it.
func (c *Check) SetRound(round int64) {
	c.mu.Lock()
	c.mu.round = round
	c.mu.Unlock()
}

// Redecorate puts around a subgroup's backend a Check of its own.
func (*Check) Redecorate(inner pg.Backend, _ []int) pg.Backend { return NewCheck(inner) }

// Configure ends what is queued, and configures the backend.
func (c *Check) Configure(ctx context.Context, config pg.Config) error {
	if err := c.empty(ctx, fmt.Errorf("%w: configured for epoch %v", pg.ErrAborted, config.Epoch())); err != nil {
		return err
	}
	if err := c.Layer.Configure(ctx, config); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.config = config
	c.mu.round, c.mu.applied = config.Round, config.Round
	return nil
}

// empty aborts the epoch if anything is queued, and waits until nothing is: an
// op of one epoch must not be issued in the next.
func (c *Check) empty(ctx context.Context, cause error) error {
	c.mu.Lock()
	idle, epoch, closed := c.mu.idle, c.mu.config.Epoch(), c.mu.closed
	c.mu.Unlock()
	if idle == nil || closed {
		return nil
	}
	c.Unwrap().Abort(epoch, cause)
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the ops of epoch %v: %w", epoch, context.Cause(ctx))
	}
}

// Submit starts op once the ranks agree on it; see Check.
func (c *Check) Submit(op *pg.Op) *pg.Work {
	c.mu.Lock()
	config, round := c.mu.config, c.mu.round
	c.mu.Unlock()
	if n := config.WorldSize(); n > 0 {
		if err := op.Validate(config.Rank, n); err != nil {
			return pg.Finished(op, err)
		}
	}
	if op.Kind == pg.KindBatch && !pointToPoint(op) {
		return pg.SubmitBatch(c, op) // each collective of it is checked
	}
	r := c.relays.Begin(op)
	work := r.Work() // r may be gone when submit returns
	r.State.epoch, r.State.round = config.Epoch(), round
	if pointToPoint(op) && onCPU(op) {
		c.applyRound(r.State.round)
		r.Submit(c.Unwrap(), *op)
		return work
	}
	c.mu.Lock()
	if c.mu.issuing++; c.mu.issuing == 1 {
		c.mu.idle = make(chan struct{})
	}
	c.mu.Unlock()
	c.queue.Submit(r)
	return work
}

// pointToPoint tells whether op is a send, a receive, or a batch of such.
func pointToPoint(op *pg.Op) bool {
	if op.Kind != pg.KindBatch {
		return op.Kind.PointToPoint()
	}
	for _, sub := range op.Batch {
		if sub == nil || !sub.Kind.PointToPoint() {
			return false
		}
	}
	return true
}

// onCPU tells whether no tensor of op lies on a device.
func onCPU(op *pg.Op) bool { return op.RequireCPU() == nil }

// Close closes the backend, and ends what is queued.
func (c *Check) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	err := c.Unwrap().Close()
	c.queue.Close()
	return err
}

// CancelQueued ends a queued op for a caller whose ctx ended.
func (c *Check) CancelQueued(w *pg.Work, cause error) bool { return c.queue.Cancel(w, cause) }

// canceled ends a queued op that its caller gave up: as the peers will wait
// for it, the group breaks.
func (c *Check) canceled(r *checkRelay, cause error) {
	c.Unwrap().Abort(r.State.epoch, cause)
	r.Finish(cause)
	c.left()
}

// left counts an op that is not queued any more.
func (c *Check) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.issuing--; c.mu.issuing == 0 {
		close(c.mu.idle)
		c.mu.idle = nil
	}
}

// issue submits r below once the ranks agree.
func (c *Check) issue(ctx context.Context, r *checkRelay, mayWait bool) bool {
	c.mu.Lock()
	config := c.mu.config
	c.mu.Unlock()
	collective, several := !pointToPoint(r.Op()), config.WorldSize() > 1
	if collective && several && !mayWait {
		return false
	}
	defer c.left()
	if collective {
		c.number(r)
	}
	if collective && several {
		if err := c.agree(ctx, r, config); err != nil {
			if r.Op().Kind == pg.KindBallot {
				r.Op().OwnBallot(config.Rank, config.WorldSize())
			}
			r.Finish(err)
			return true
		}
	}
	op := *r.Op()
	if several {
		c.cover(r)
	}
	c.applyRound(r.State.round)
	r.Submit(c.Unwrap(), op)
	return true
}

// number gives r its place among the collectives of its epoch.
func (c *Check) number(r *checkRelay) {
	if c.seqOf != r.State.epoch {
		c.seqOf, c.seq, c.unfolded, c.digests = r.State.epoch, 0, 0, nil
	}
	c.seq++
	r.State.seq = c.seq
}

// applyRound tells the backend the round of the op to come, if it is another.
func (c *Check) applyRound(round int64) {
	c.mu.Lock()
	changed := c.mu.applied != round
	c.mu.applied = round
	c.mu.Unlock()
	if changed {
		c.Layer.SetRound(round)
	}
}

// agree exchanges the fingerprint of r and compares what comes.
func (c *Check) agree(ctx context.Context, r *checkRelay, config pg.Config) error {
	own := fingerprintOf(r.Op(), config.WorldSize(), r.State.seq)
	c.applyRound(r.State.round)
	began := time.Now()
	probe := &pg.Op{Kind: pg.KindBallot, Ballot: own.encode(), Deadline: r.Op().Deadline}
	work := c.Unwrap().Submit(probe)
	var canceled error
	select {
	case <-work.Done():
	case <-ctx.Done():
		canceled = c.queue.CauseOf(context.Cause(ctx))
		c.Unwrap().Abort(r.State.epoch, canceled)
		<-work.Done()
	}
	err := work.Err()
	if odd := c.compare(r, config, &own, probe.Ballots); odd != nil {
		c.Unwrap().Abort(r.State.epoch, odd)
		return odd
	}
	switch {
	case canceled != nil:
		return canceled
	case errors.Is(err, pg.ErrUnsupported):
		return fmt.Errorf("check %v: backend %s has no ballots: %w", r.Op().Kind, c.Name(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return missing(r, config, &own, probe.Ballots, time.Since(began), err)
	case err != nil:
		return relabel(err, r)
	}
	c.fold(probe.Ballots)
	return nil
}

// compare returns what is wrong between two ranks, or nil. Every rank that has
// all fingerprints returns the same two: the rank that disagrees with the most
// others, and the lowest of those.
func (c *Check) compare(r *checkRelay, config pg.Config, own *fingerprint, ballots []pg.BallotEntry) error {
	prints := make([]*fingerprint, len(ballots))
	for rank := range ballots {
		if !ballots[rank].Here {
			continue
		}
		f, err := decodeFingerprint(ballots[rank].Payload)
		if err != nil {
			return &pg.OpError{
				Op: r.Op().Kind, Seq: r.State.seq, QuorumID: config.QuorumID, Rank: config.Rank,
				Peer: rank, PeerID: config.ReplicaIDs[rank],
				Err: fmt.Errorf("%w: rank %d (%s) sent a ballot without a fingerprint, so it runs without Check; this rank called %v",
					pg.ErrMismatch, rank, config.ReplicaIDs[rank], own),
			}
		}
		prints[rank] = &f
	}
	odd, most, other := -1, 0, -1
	for a, f := range prints {
		count, first := 0, -1
		for b, g := range prints {
			if f != nil && g != nil && a != b && !f.agrees(g, a, b) {
				if count++; first < 0 {
					first = b
				}
			}
		}
		if count > most {
			odd, most, other = a, count, first
		}
	}
	if odd < 0 {
		return nil
	}
	return &pg.OpError{
		Op: r.Op().Kind, Seq: r.State.seq, QuorumID: config.QuorumID, Rank: config.Rank,
		Peer: odd, PeerID: config.ReplicaIDs[odd], First: true, // all ranks see it themselves
		Err: fmt.Errorf("%w: rank %d (%s) called %v, but rank %d (%s) called %v", pg.ErrMismatch,
			odd, config.ReplicaIDs[odd], prints[odd], other, config.ReplicaIDs[other], prints[other]),
	}
}

// missing names who has not come.
func missing(r *checkRelay, config pg.Config, own *fingerprint, ballots []pg.BallotEntry, waited time.Duration, err error) error {
	e := &pg.OpError{Op: r.Op().Kind, Seq: r.State.seq, QuorumID: config.QuorumID, Rank: config.Rank, Peer: -1}
	var absent []string
	for rank := range ballots {
		if !ballots[rank].Here {
			absent = append(absent, fmt.Sprintf("%d (%s)", rank, config.ReplicaIDs[rank]))
			e.Peer, e.PeerID = rank, config.ReplicaIDs[rank]
		}
	}
	if len(absent) == 0 {
		return relabel(err, r)
	}
	if len(absent) > 1 {
		e.Peer, e.PeerID = -1, ""
	}
	e.Err = fmt.Errorf("rank %s did not call %v within %v: %w",
		strings.Join(absent, ", "), own, waited.Round(time.Millisecond), err)
	return e
}

// relabel makes an error of an exchange one of the op that it was for.
func relabel(err error, r *checkRelay) error {
	if e, ok := err.(*pg.OpError); ok { //nolint:errorlint // only the outermost is to be changed
		mine := *e
		mine.Op, mine.Seq = r.Op().Kind, r.State.seq
		return &mine
	}
	return err
}

// settle gives the op below the number and the digests that it would have
// without Check.
func (c *Check) settle(r *checkRelay, err error) error {
	if r.State.seq == 0 {
		return err
	}
	r.Op().Seq = r.State.seq
	if r.Op().Kind == pg.KindBallot {
		for rank := range r.Op().Ballots {
			if e := &r.Op().Ballots[rank]; e.Here && rank < len(r.State.digests) {
				e.Digest = join(r.State.digests[rank], e.Digest, 0)
			}
		}
	}
	return relabel(err, r)
}

// fold adds the digests that came with an exchange to those since the last
// ballot.
func (c *Check) fold(ballots []pg.BallotEntry) {
	if c.digests == nil {
		c.digests = slices.Repeat([]pg.Digest{{Valid: true}}, len(ballots))
	}
	for rank := range ballots {
		c.digests[rank] = join(c.digests[rank], ballots[rank].Digest, c.unfolded)
	}
	c.unfolded = 0
}

// cover notes what the next exchange's digests will be of. A ballot takes
// those so far along.
func (c *Check) cover(r *checkRelay) {
	switch r.Op().Kind {
	case pg.KindBallot:
		r.State.digests, c.digests = c.digests, nil
	case pg.KindAllReduce, pg.KindBroadcast, pg.KindAllGather:
		for i := range r.Op().Out {
			c.unfolded += (r.Op().Out[i].NumBytes() + pg.DigestChunkBytes - 1) / pg.DigestChunkBytes
		}
	}
}
