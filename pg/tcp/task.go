package tcp

import (
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// task is an op under way.
//
//	prepare ─▶ open: streams move ─▶ need == 0 ─▶ untouched ─▶ complete
//	                  └──────── err ≠ nil ──────────┘
//
// Guarded by Backend.mu, but for what prepare fills before open is true and
// nobody changes after.
type task struct {
	op    *pg.Op
	work  *pg.Work
	group *group
	call  frame.Call
	seq   uint64
	tag   int64
	until time.Time

	open    bool // prepared: frames may move
	done    bool // complete was or will be called
	need    int  // frames and steps that are missing
	touch   int  // goroutines that may use the tensors or this task
	err     error
	pending int  // index in group.pending
	told    bool // a send: its announcement is out

	in, out [][]byte // views of the op's tensors
	peers   []peerIO // by rank
	crcs    []slotCRC
	packed  *buf // input of a small reduction, all tensors in one
	fold    fold
	late    []lateCopy // frames that came before the op
}

// peerIO is what moves between this rank and one peer, by phase.
type peerIO struct {
	out, in [2]stream
	unsent  bool // a piece of out was taken, and its socket did not take it
}

// lateCopy is a frame that came before its op, on its way into a tensor.
type lateCopy struct {
	slot slot
	link *link
	from *buf // nil if the payload is in place: it was adopted
	crc  uint32
}

// newTaskLocked makes op a pending task of g.
func (b *Backend) newTaskLocked(g *group, op *pg.Op) *task {
	t := b.mu.free.take()
	op.Epoch, op.Round = g.epoch, g.round
	t.op, t.work, t.group = op, pg.NewWork(op), g
	t.call = callOf(op, g)
	t.until = op.Deadline
	if t.until.IsZero() {
		t.until = time.Now().Add(b.timeout(&g.cfg))
	}
	t.pending = len(g.pending)
	g.pending = append(g.pending, t)
	b.live.Add(1)
	b.pending.Add(1)
	if b.poller != nil && (!op.Kind.PointToPoint() || longMessage(op)) {
		t.work.SetHelper(b)
	}
	if t.until.Before(b.mu.nextLook) {
		b.tick.poke()
	}
	return t
}

// timeout is that of ops and configurations without a deadline.
func (b *Backend) timeout(c *pg.Config) time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return b.opt.Timeout
}

// settledLocked tells, once, that t can complete: it has succeeded or failed,
// and nobody touches it.
func (b *Backend) settledLocked(t *task) bool {
	if t.done || t.touch > 0 || t.err == nil && (!t.open || t.need > 0) {
		return false
	}
	t.done = true
	g := t.group
	if g.phase != groupBroken { // else nothing is pending any more
		last := len(g.pending) - 1
		g.pending[t.pending] = g.pending[last]
		g.pending[t.pending].pending = t.pending
		g.pending[last] = nil
		g.pending = g.pending[:last]
	}
	if g.active == t {
		g.active = nil
		if digested(t.call.Kind) && b.spoilNext.CompareAndSwap(true, false) {
			t.spoil()
		}
		t.addDigest(&g.digest)
	}
	return true
}

// untouchLocked lets go of t, and completes it if that was all it waited for.
func (b *Backend) untouchLocked(t *task, do *todo) {
	t.touch--
	if !b.settledLocked(t) {
		return
	}
	do.finish(t)
	g := t.group
	if g.active == nil && g.deferredBreak != nil {
		b.breakLocked(g, *g.deferredBreak, do)
	}
	if !g.queue.empty() {
		do.advance = g
	}
}

// recycle makes t ready for another op.
func (b *Backend) recycle(t *task) {
	b.pool.put(t.packed)
	t.fold.drop(&b.pool)
	clear(t.in)
	clear(t.out)
	clear(t.late)
	clear(t.peers)
	fresh := task{
		in: t.in[:0], out: t.out[:0], peers: t.peers[:0], crcs: t.crcs[:0], late: t.late[:0],
	}
	fresh.fold.reuse(&t.fold)
	*t = fresh
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.free) < maxFreeTasks {
		b.mu.free = append(b.mu.free, t)
	}
}

// maxFreeTasks bounds how many tasks are kept for reuse.
const maxFreeTasks = 64

// outgoing is the stream to rank that has a piece ready to go, or nil. Results go
// first: they are still in the cache, and peers wait for them to finish.
func (t *task) outgoing(rank int) *stream {
	if rank >= len(t.peers) {
		return nil
	}
	p := &t.peers[rank]
	for phase := len(p.out) - 1; phase >= 0; phase-- {
		if s := &p.out[phase]; s.ready() {
			return s
		}
	}
	return nil
}

// slotOf is where the checksum of s's next piece is kept, or nil.
func (t *task) slotOf(s *stream) *slotCRC {
	if s.slots < 0 {
		return nil
	}
	return &t.crcs[s.slots+s.piece]
}
