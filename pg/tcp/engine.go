package tcp

import (
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// advance starts collectives, in order, as long as none is under way.
func (b *Backend) advance(g *group) {
	for {
		b.mu.Lock()
		if g.phase != groupReady || g.active != nil {
			b.mu.Unlock()
			return
		}
		t := g.queue.pop()
		if t == nil {
			b.mu.Unlock()
			return
		}
		g.active = t
		t.touch++
		b.mu.Unlock()
		if !b.begin(t) {
			return
		}
	}
}

// begin lays t out, opens it for frames, and does what needs no peer. It gives
// true if t is complete already. The caller's touch is let go.
func (b *Backend) begin(t *task) bool {
	t.prepare(b)
	g := t.group
	var do todo
	b.mu.Lock()
	if t.err == nil {
		b.openLocked(t, &do)
	}
	b.mu.Unlock()
	b.do(&do)
	for i := range t.late {
		t.late[i].link.land(&t.late[i])
	}
	if t.fold.world == 1 {
		for k := range t.fold.cells {
			b.foldCell(t, k)
		}
	}
	t.local()
	do = todo{}
	b.mu.Lock()
	t.need--
	b.untouchLocked(t, &do)
	complete := do.done != nil
	do.advance = nil // our caller's loop does that
	b.mu.Unlock()
	b.do(&do)
	return complete && g.phaseIs(b, groupReady)
}

func (g *group) phaseIs(b *Backend, p groupPhase) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return g.phase == p
}

// openLocked lets frames of t move, those included that came before.
func (b *Backend) openLocked(t *task, do *todo) {
	g := t.group
	if t.call.kind == pg.KindBallot {
		t.fillBallot(g.digest.take())
	}
	t.open = true
	for _, l := range g.peers {
		if l == nil {
			continue
		}
		if h, err := l.admitLocked(t, do); err != nil {
			b.breakLocked(g, l.mismatchCause(&h, err), do)
			return
		}
	}
	do.kickAll = g
}

// sendLocked starts a point-to-point send.
func (b *Backend) sendLocked(t *task, do *todo) {
	g, op := t.group, t.op
	l := g.peers[op.Peer]
	key := p2pKey{op.Peer, int64(op.Tag)}
	g.sendSeq[key]++
	op.Seq, t.seq, t.tag = g.sendSeq[key], g.sendSeq[key], key.tag
	t.in = views(t.in, op.In)
	t.peers = resize(t.peers, g.world)
	s := whole(t.in, 0)
	t.peers[op.Peer].out[0] = s
	t.need, t.open = s.pieces, true
	l.messages.push(t)
	do.kick = l
}

// recvLocked posts a receive: the first message that is there and fits is
// taken, else it waits.
func (b *Backend) recvLocked(t *task, do *todo) {
	g, op := t.group, t.op
	t.tag = int64(op.Tag)
	t.out = views(t.out, op.Out)
	t.open = true
	t.need = 1
	for r, l := range g.peers {
		if l == nil || op.Peer != pg.AnySource && op.Peer != r {
			continue
		}
		if m := l.findUnclaimedLocked(t.tag); m != nil {
			l.claimLocked(m, t, do)
			return
		}
	}
	g.recvs = append(g.recvs, t)
}

// p2pKey numbers the messages between two ranks under one tag.
type p2pKey struct {
	peer int
	tag  int64
}

// maxTags bounds how many tags, of all peers, one epoch may see.
const maxTags = 1 << 20

// message is one that is being received, or was and is not taken.
type message struct {
	tag    int64
	seq    uint64
	call   call
	total  int
	got    int    // bytes that are here or on their way
	task   *task  // the receive that took it, or nil
	frames []*buf // what came before it was taken
	whole  bool   // all frames have come
}

func (m *message) drop(pool *bufPool) {
	for _, x := range m.frames {
		pool.put(x)
	}
	m.frames = nil
}

func (l *link) findUnclaimedLocked(tag int64) *message {
	for _, m := range l.unclaimed {
		if m.tag == tag {
			return m
		}
	}
	return nil
}

// placeMessageLocked finds the place of a point-to-point frame.
func (l *link) placeMessageLocked(g *group, h *header, do *todo) (slot, error) {
	m := l.message
	if m == nil {
		key := p2pKey{l.rank, h.tag}
		if _, known := g.recvSeq[key]; !known && len(g.recvSeq) >= maxTags {
			return slot{}, fmt.Errorf("%w: tag %d is one more than %d in one epoch", ErrCorrupt, h.tag, maxTags)
		}
		g.recvSeq[key]++
		if h.offset != 0 || h.seq != g.recvSeq[key] {
			return slot{}, fmt.Errorf("%w: message %d under tag %d begins at byte %d, want message %d from 0",
				ErrCorrupt, h.seq, h.tag, h.offset, g.recvSeq[key])
		}
		m = &message{tag: h.tag, seq: h.seq, call: h.call, total: int(h.total)}
		l.message = m
		if err := l.matchLocked(g, m); err != nil {
			return slot{}, err
		}
	}
	if h.tag != m.tag || h.seq != m.seq || h.total != uint64(m.total) || h.offset != uint64(m.got) {
		return slot{}, fmt.Errorf("%w: byte %d of message %d under tag %d, want %d of %d under %d",
			ErrCorrupt, h.offset, h.seq, h.tag, m.got, m.seq, m.tag)
	}
	lo := m.got
	m.got += int(h.length)
	if t := m.task; t != nil {
		t.touch++
		l.oweLocked(classMessage, int(h.length)+headerBytes, do)
		return slot{task: t, group: g, dst: t.out[0][lo:m.got], cell: -1, message: m}, nil
	}
	x := l.b.pool.get(int(h.length))
	return slot{group: g, dst: x.b, buf: x, cell: -1, message: m}, nil
}

// matchLocked gives m to the first receive that waits for it, or keeps it.
func (l *link) matchLocked(g *group, m *message) error {
	for i, t := range g.recvs {
		if t.tag != m.tag || t.op.Peer != pg.AnySource && t.op.Peer != l.rank {
			continue
		}
		g.recvs = append(g.recvs[:i], g.recvs[i+1:]...)
		return l.takeLockedMessage(m, t)
	}
	l.unclaimed = append(l.unclaimed, m)
	return nil
}

// takeLockedMessage makes t the receive of m.
func (l *link) takeLockedMessage(m *message, t *task) error {
	t.op.Source, t.op.Seq, t.seq = l.rank, m.seq, m.seq
	if m.total != len(t.out[0]) || m.call.dtype != t.call.dtype || m.call.round != t.call.round {
		return fmt.Errorf("%w: %s sent %d bytes of %v under tag %d in round %d, rank %d receives %d of %v in round %d",
			pg.ErrMismatch, l.peerName(), m.total, m.call.dtype, m.tag, m.call.round,
			t.group.rank, len(t.out[0]), t.call.dtype, t.call.round)
	}
	m.task = t
	return nil
}

// claimLocked gives an unclaimed message to t, with what has come of it.
func (l *link) claimLocked(m *message, t *task, do *todo) {
	for i := range l.unclaimed {
		if l.unclaimed[i] == m {
			l.unclaimed = append(l.unclaimed[:i], l.unclaimed[i+1:]...)
			break
		}
	}
	b := l.b
	if err := l.takeLockedMessage(m, t); err != nil {
		m.drop(&b.pool)
		b.breakLocked(t.group, l.mismatchCause(&header{call: m.call, seq: m.seq}, err), do)
		return
	}
	// Copied under the lock: a window at most, and only when the message was
	// early.
	at := 0
	for _, x := range m.frames {
		at += copy(t.out[0][at:], x.b)
		l.oweLocked(classMessage, len(x.b)+headerBytes, do)
	}
	m.drop(&b.pool)
	if m.whole {
		t.need--
		t.touch++
		b.untouchLocked(t, do)
	}
}

// messageLocked accounts for a frame of a message that is in its slot.
func (l *link) messageLocked(h *header, s *slot, do *todo) {
	b, m := l.b, s.message
	last := h.offset+uint64(h.length) == h.total
	if last && l.message == m {
		l.message = nil
	}
	if s.task != nil { // straight into the tensor
		if last {
			s.task.need--
		}
		b.untouchLocked(s.task, do)
		return
	}
	g, ok := l.currentLocked(h.epoch)
	if !ok || g != s.group {
		b.stale()
		b.pool.put(s.buf)
		return
	}
	m.whole = last
	t := m.task
	if t == nil {
		m.frames = append(m.frames, s.buf)
		return
	}
	// The receive came while the frame was on its way.
	copy(t.out[0][h.offset:], s.buf.b)
	l.oweLocked(classMessage, len(s.buf.b)+headerBytes, do)
	b.pool.put(s.buf)
	if last {
		t.need--
		t.touch++
		b.untouchLocked(t, do)
	}
}
