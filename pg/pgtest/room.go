package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/pg"
)

// seat is one rank of a room.
type seat struct {
	backend *MemoryBackend
	config  pg.Config
	room    *room
	points  failpoint.Hook // of the context of Configure

	// Guarded by the room's lock.
	taken  bool
	left   bool
	seq    uint64 // collectives submitted
	p2pSeq uint64
	digest pg.Digest
}

func (s *seat) rank() int { return s.config.Rank }

// room is one configuration: who is in it and what is under way.
type room struct {
	net     *Memory
	address string
	config  pg.Config     // of whoever came first
	full    chan struct{} // closed when every rank has come
	broken  chan struct{} // closed at the first failure

	mu struct {
		sync.Mutex

		seats    []*seat
		breakage *breakage
		done     uint64     // collectives carried out
		meetings []*meeting // the ones after, in order
		sends    []*pending
		recvs    []*pending
	}
}

// breakage is why a room is broken. The rank that saw it first has the error
// itself; the others were told, so they have its text and the culprit.
type breakage struct {
	origin  int
	culprit int // -1: none
	local   error
	remote  error
	seen    bool // every rank saw it by itself: a lost link
	differ  bool // origin and culprit called different things, and saw it of each other
	parted  bool // their link is cut: likewise
}

// pending is an op under way.
type pending struct {
	seat  *seat
	op    *pg.Op
	work  *pg.Work
	timer *time.Timer
	err   error
	done  bool
}

// meeting is a collective that some ranks have come to.
type meeting struct {
	seq     uint64
	arrived []*pending // by rank
	count   int
}

func newRoom(m *Memory, c pg.Config) *room {
	r := &room{
		net: m, address: c.StoreAddress, config: c,
		full: make(chan struct{}), broken: make(chan struct{}),
	}
	r.mu.seats = make([]*seat, c.WorldSize())
	return r
}

// sit takes s's place, if s means the same group as those who came before.
func (r *room) sit(s *seat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.breakage != nil {
		return r.errForLocked(s)
	}
	a, b := r.config, s.config
	switch {
	case !slices.Equal(a.ReplicaIDs, b.ReplicaIDs):
		return fmt.Errorf("members %v, others have %v", b.ReplicaIDs, a.ReplicaIDs)
	case a.Epoch() != b.Epoch() || a.GroupRank != b.GroupRank:
		return fmt.Errorf("epoch %v group rank %d, others have %v and %d",
			b.Epoch(), b.GroupRank, a.Epoch(), a.GroupRank)
	case string(a.Token) != string(b.Token):
		return errors.New("the token is not that of the others")
	case r.mu.seats[s.rank()] != nil:
		return fmt.Errorf("rank %d has come already: %w", s.rank(), pg.ErrUsedPrefix)
	}
	r.mu.seats[s.rank()] = s
	s.taken = true
	if !slices.Contains(r.mu.seats, nil) {
		close(r.full)
	}
	return nil
}

// submit starts op of rank s.
func (r *room) submit(s *seat, op *pg.Op, work *pg.Work) {
	p := &pending{seat: s, op: op, work: work}
	r.mu.Lock()
	var done []*pending
	switch {
	case r.mu.breakage != nil:
		p.err = errors.Join(pg.ErrAborted, r.errForLocked(s))
		done = append(done, p)
	case op.Kind.PointToPoint():
		s.p2pSeq++
		op.Seq = s.p2pSeq
		done = r.postLocked(p)
	default:
		s.seq++
		op.Seq = s.seq
		done = r.arriveLocked(p)
	}
	for _, d := range done {
		d.done = true
	}
	if !p.done {
		r.setDeadlineLocked(p)
	}
	r.mu.Unlock()
	finish(done)
}

// finish completes works whose ops nothing touches any more.
func finish(done []*pending) {
	for _, p := range done {
		if p.timer != nil && p.timer.Stop() {
			p.seat.backend.timers.Done()
		}
		p.work.Complete(p.err)
		p.work.Release()
	}
}

func (r *room) setDeadlineLocked(p *pending) {
	deadline := p.op.Deadline
	if deadline.IsZero() {
		limit := p.seat.config.Timeout
		limit = cmp.Or(limit, pg.DefaultTimeout)
		deadline = time.Now().Add(limit)
	}
	p.seat.backend.timers.Add(1)
	p.timer = time.AfterFunc(time.Until(deadline), func() {
		defer p.seat.backend.timers.Done()
		r.expire(p)
	})
}

// expire fails the group for an op that is still pending at its deadline, in
// the name of the first rank that has not come.
func (r *room) expire(p *pending) {
	r.mu.Lock()
	if p.done {
		r.mu.Unlock()
		return
	}
	late := fmt.Errorf("deadline of %v passed: %w", p.op.Kind, context.DeadlineExceeded)
	br := &breakage{origin: p.seat.rank(), culprit: r.missingLocked(p), local: late}
	br.remote = fmt.Errorf("%w by rank %d: %v", pg.ErrAborted, br.origin, late)
	done := r.breakLocked(br)
	r.mu.Unlock()
	finish(done)
}

// missingLocked is a rank that p waits for, or -1.
func (r *room) missingLocked(p *pending) int {
	if p.op.Kind.PointToPoint() {
		return p.op.Peer // AnySource is -1 too
	}
	if len(r.mu.meetings) == 0 {
		return -1
	}
	return slices.Index(r.mu.meetings[0].arrived, nil)
}

// fail breaks the room because s says so.
func (r *room) fail(s *seat, cause error) {
	r.mu.Lock()
	done := r.breakLocked(&breakage{
		origin: s.rank(), culprit: s.rank(), local: cause,
		remote: fmt.Errorf("%w by rank %d: %v", pg.ErrAborted, s.rank(), cause),
	})
	r.mu.Unlock()
	finish(done)
}

// lose breaks the room as the death of s would.
func (r *room) lose(s *seat) {
	lost := fmt.Errorf("%w: link closed by the peer", pg.ErrPeerLost)
	r.mu.Lock()
	done := r.breakLocked(&breakage{
		origin: s.rank(), culprit: s.rank(), local: pg.ErrClosed, remote: lost, seen: true,
	})
	r.mu.Unlock()
	finish(done)
}

// leave breaks the room for the others, if it is not broken, since s is gone.
func (s *seat) leave(why error) {
	r := s.room
	r.mu.Lock()
	done := r.breakLocked(&breakage{
		origin: s.rank(), culprit: s.rank(), local: why,
		remote: fmt.Errorf("%w by rank %d: %v", pg.ErrAborted, s.rank(), why),
	})
	s.left = true
	empty := !slices.ContainsFunc(r.mu.seats, func(o *seat) bool { return o != nil && !o.left })
	r.mu.Unlock()
	finish(done)
	if empty {
		r.net.forget(r)
	}
}

// breakLocked fails everything under way. Only the first breakage counts.
func (r *room) breakLocked(b *breakage) []*pending {
	if r.mu.breakage != nil {
		return nil
	}
	r.mu.breakage = b
	close(r.broken)
	done := append(r.mu.sends, r.mu.recvs...)
	for i, m := range r.mu.meetings {
		for rank, p := range m.arrived {
			if p == nil {
				continue
			}
			if p.op.Kind == pg.KindBallot {
				m.fillBallots(rank, i == 0)
			}
			done = append(done, p)
		}
	}
	r.mu.sends, r.mu.recvs, r.mu.meetings = nil, nil, nil
	for _, p := range done {
		p.done = true
		p.err = r.opErrorLocked(p.seat, p.op)
	}
	return done
}

// errFor is what Err says at s.
func (r *room) errFor(s *seat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errForLocked(s)
}

func (r *room) errForLocked(s *seat) error {
	b := r.mu.breakage
	switch {
	case b == nil:
		return nil
	case b.origin == s.rank() && !b.parted:
		return b.local
	}
	return r.opErrorLocked(s, &pg.Op{})
}

// opErrorLocked is how the breakage shows in an op of s.
func (r *room) opErrorLocked(s *seat, op *pg.Op) error {
	b := r.mu.breakage
	e := &pg.OpError{
		Op: op.Kind, Seq: op.Seq, QuorumID: s.config.QuorumID, Rank: s.rank(),
		Peer: b.culprit, First: b.seen, Err: b.remote,
	}
	if b.origin == s.rank() {
		e.Err = b.local
	}
	switch {
	case b.differ && b.culprit == s.rank():
		e.Peer, e.First = b.origin, true
	case b.differ && b.origin == s.rank():
		e.First = true
	case b.culprit == s.rank():
		e.Peer = -1
	}
	if e.Peer >= 0 {
		e.PeerID = s.config.ReplicaIDs[e.Peer]
	}
	return e
}
