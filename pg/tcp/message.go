package tcp

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// Point-to-point. A message goes out in frames like any stream, under a number
// of its own per (peer, tag). Its first piece, or over a lane its announcement,
// goes at once; the rest of a longer
// message waits until the receiver says, with a take frame, that a receive has
// taken it. So a message that nobody wants yet holds up no other one, unless
// first pieces alone fill the window.

// maxTags bounds how many tags, of all peers, one epoch may see.
const maxTags = 1 << 20

// p2pKey numbers the messages between two ranks under one tag.
type p2pKey struct {
	peer int
	tag  int64
}

// message is one that is being received, or that nobody has taken.
type message struct {
	tag    int64
	seq    uint64
	call   frame.Call
	total  int
	first  int    // bytes of its first frame; if there are more, they wait to be asked for
	got    int    // bytes that are here or on their way
	landed int    // bytes that are here
	placed int    // frames that have a place and are not settled
	over   bool   // it is in its tensor
	task   *task  // the receive that took it, or nil
	frames []*buf // what came before it was taken
}

func (m *message) drop(pool *bufPool) {
	for _, x := range m.frames {
		pool.put(x)
	}
	clear(m.frames)
	m.frames = m.frames[:0]
}

// longMessage tells whether op moves more than one frame.
func longMessage(op *pg.Op) bool {
	return len(op.In) > 0 && op.In[0].NumBytes() > MaxPayload || len(op.Out) > 0 && op.Out[0].NumBytes() > MaxPayload
}

// forgetMessageLocked keeps m for another one, if nobody refers to it.
func (b *Backend) forgetMessageLocked(m *message) {
	if m.over && m.placed == 0 && len(b.mu.messages) < maxFreeTasks {
		clear(m.frames)
		*m = message{frames: m.frames[:0]}
		b.mu.messages = append(b.mu.messages, m)
	}
}

// sendLocked starts a send.
func (b *Backend) sendLocked(t *task, do *todo) {
	g, op := t.group, t.op
	l := g.peers[op.Peer]
	key := p2pKey{op.Peer, int64(op.Tag)}
	g.sendSeq[key]++
	op.Seq, t.seq, t.tag = g.sendSeq[key], g.sendSeq[key], key.tag
	t.in = views(t.in, op.In)
	t.peers = resize(t.peers, g.world)
	s := whole(t.in, 0)
	s.limit = 1
	if l.lane != nil && s.pieces > 1 {
		s = newStream(t.in, span{0, size(t.in)}, sharedCut)
		s.limit = 0 // announced on the socket, sent through the lane
	}
	t.peers[op.Peer].out[0] = s
	t.need, t.open = s.pieces, true
	l.sends = append(l.sends, t)
	do.wake(l)
}

// recvLocked posts a receive: the first message that is there and fits is
// taken, else it waits.
func (b *Backend) recvLocked(t *task, do *todo) {
	g, op := t.group, t.op
	t.tag = int64(op.Tag)
	t.out = views(t.out, op.Out)
	t.need, t.open = 1, true
	for r, l := range g.peers {
		if l == nil || op.Peer != pg.AnySource && op.Peer != r {
			continue
		}
		i := slices.IndexFunc(l.incoming, func(m *message) bool { return m.task == nil && m.tag == t.tag })
		if i >= 0 {
			l.claimLocked(l.incoming[i], t, do)
			return
		}
	}
	g.recvs = append(g.recvs, t)
}

// claimLocked gives an unclaimed message to t, with what has come of it.
func (l *link) claimLocked(m *message, t *task, do *todo) {
	b := l.b
	if err := l.giveLocked(m, t, do); err != nil {
		b.breakLocked(t.group, l.mismatchCause(&frame.Header{Call: m.call, Seq: m.seq}, err), do)
		return
	}
	l.fillLocked(m, 0, do)
	b.forgetMessageLocked(m)
}

// fillLocked copies what came of m before it was taken, which begins at lo, under the
// lock: one piece, as a rule, since the rest waits for us.
func (l *link) fillLocked(m *message, lo int, do *todo) {
	t, at := m.task, lo
	for _, x := range m.frames {
		at += copy(t.out[0][at:], x.b)
		l.oweLocked(frame.ClassMessage, len(x.b)+frame.HeaderBytes, do)
	}
	m.drop(&l.b.pool)
	t.touch++
	l.landedLocked(m, at-lo, do)
	l.b.untouchLocked(t, do)
}

// giveLocked makes t the receive of m, and asks for the rest of it.
func (l *link) giveLocked(m *message, t *task, do *todo) error {
	t.op.Source, t.op.Seq, t.seq = l.rank, m.seq, m.seq
	if m.total != len(t.out[0]) || m.call.DType != t.call.DType || m.call.Round != t.call.Round {
		err := fmt.Errorf("%w: %s sent %d bytes of %v under tag %d in round %d, rank %d receives %d of %v in round %d",
			pg.ErrMismatch, l.peerName(), m.total, m.call.DType, m.tag, m.call.Round,
			t.group.rank, len(t.out[0]), t.call.DType, t.call.Round)
		return roundError(&m.call, &t.call, err)
	}
	m.task = t
	if m.total > m.first {
		take := l.b.controlFrame(frame.TypeTake, t.group.key, nil)
		take.head.Seq, take.head.Tag = m.seq, m.tag
		l.control.push(take)
		do.wake(l)
	}
	return nil
}

// taken lets the rest of a message go.
func (l *link) taken(h *frame.Header) {
	b := l.b
	b.mu.Lock()
	if l.currentLocked(h.Epoch) != nil {
		for _, t := range l.sends {
			if t.tag == h.Tag && t.seq == h.Seq {
				s := &t.peers[l.rank].out[0]
				s.limit = s.pieces
			}
		}
	}
	b.mu.Unlock()
	b.kick(l)
}

// sharedCut is the largest piece of a message that goes through shared memory:
// several at a time should stay in the cache that both sides share.
const sharedCut = 128 << 10

// sendableLocked is the first send that has something for the socket: a piece or,
// if the pieces take the lane, its announcement.
func (l *link) sendableLocked() *task {
	for _, t := range l.sends {
		s := &t.peers[l.rank].out[0]
		if l.lane == nil && s.ready() || l.lane != nil && (s.pieces == 1 || !t.told) {
			return t
		}
	}
	return nil
}

// askedLocked is the first send, and its stream, that has a piece for the lane.
func (l *link) askedLocked() (*task, *stream) {
	for _, t := range l.sends {
		if s := &t.peers[l.rank].out[0]; t.told && s.ready() {
			return t, s
		}
	}
	return nil, nil
}

// tellLocked makes the announcement of t, a frame without payload, the one that
// goes out.
func (k *sock) tellLocked(t *task) {
	l, o := k.l, &k.out
	o.payload = nil
	o.h = frame.Header{
		Type: frame.TypeData, Epoch: t.group.key, Seq: t.seq, Tag: t.tag, Call: t.call,
		Total: uint64(t.peers[l.rank].out[0].total),
	}
	l.flow[frame.ClassMessage].credit -= frame.HeaderBytes
	t.told = true
}

// placeMessageLocked finds the place of a point-to-point frame.
func (l *link) placeMessageLocked(g *group, h *frame.Header, do *todo) (slot, error) {
	m, err := l.messageLocked(g, h, do)
	if err != nil {
		return slot{}, err
	}
	if h.Total != uint64(m.total) || h.Offset != uint64(m.got) {
		return slot{}, fmt.Errorf("%w: byte %d of %d of message %d under tag %d, want %d of %d",
			ErrCorrupt, h.Offset, h.Total, h.Seq, h.Tag, m.got, m.total)
	}
	if m.task != nil {
		l.oweLocked(frame.ClassMessage, int(h.Length)+frame.HeaderBytes, do)
		return m.nextLocked(int(h.Length)), nil
	}
	m.got += int(h.Length)
	m.placed++
	x := l.b.pool.get(int(h.Length))
	return slot{group: g, dst: x.b, buf: x, cell: -1, message: m}, nil
}

// placeAskedLocked finds the place of a record of a message that was asked for.
func (l *link) placeAskedLocked(h *frame.Header) (slot, error) {
	i := slices.IndexFunc(l.incoming, func(m *message) bool { return m.tag == h.Tag && m.seq == h.Seq })
	if i < 0 || l.incoming[i].task == nil || h.Total != uint64(l.incoming[i].total) || h.Offset != uint64(l.incoming[i].got) {
		return slot{}, fmt.Errorf("%w: byte %d of %d of message %d under tag %d in shared memory, which was not asked for",
			ErrCorrupt, h.Offset, h.Total, h.Seq, h.Tag)
	}
	return l.incoming[i].nextLocked(int(h.Length)), nil
}

// nextLocked is the place of the next n bytes of a message that was taken.
func (m *message) nextLocked(n int) slot {
	t, lo := m.task, m.got
	m.got += n
	m.placed++
	t.touch++
	return slot{task: t, group: t.group, dst: t.out[0][lo:m.got], cell: -1, message: m}
}

// messageLocked is the message that h belongs to. A new one goes to the first
// receive that waits for it.
func (l *link) messageLocked(g *group, h *frame.Header, do *todo) (*message, error) {
	for _, m := range l.incoming {
		if m.tag == h.Tag && m.seq == h.Seq {
			return m, nil
		}
	}
	key := p2pKey{l.rank, h.Tag}
	last, known := g.recvSeq[key]
	if !known && len(g.recvSeq) >= maxTags {
		return nil, fmt.Errorf("%w: tag %d is one more than %d in one epoch", ErrCorrupt, h.Tag, maxTags)
	}
	if h.Offset != 0 || h.Seq != last+1 {
		return nil, fmt.Errorf("%w: byte %d of message %d under tag %d, want message %d from 0",
			ErrCorrupt, h.Offset, h.Seq, h.Tag, last+1)
	}
	g.recvSeq[key] = h.Seq
	m := l.b.mu.messages.take()
	m.tag, m.seq, m.call, m.total, m.first = h.Tag, h.Seq, h.Call, int(h.Total), int(h.Length)
	l.incoming = append(l.incoming, m)
	for i, t := range g.recvs {
		if t.tag == m.tag && (t.op.Peer == pg.AnySource || t.op.Peer == l.rank) {
			g.recvs = slices.Delete(g.recvs, i, i+1)
			return m, l.giveLocked(m, t, do)
		}
	}
	return m, nil
}

// settleMessageLocked accounts for a frame of a message that is in its slot.
func (l *link) settleMessageLocked(h *frame.Header, s *slot, do *todo) {
	b, m := l.b, s.message
	m.placed--
	defer b.forgetMessageLocked(m)
	if s.task != nil { // straight into the tensor
		l.landedLocked(m, int(h.Length), do)
		b.untouchLocked(s.task, do)
		return
	}
	g := l.currentLocked(h.Epoch)
	if g == nil || g != s.group {
		b.stale()
		b.pool.put(s.buf)
		return
	}
	m.frames = append(m.frames, s.buf)
	if m.task != nil { // the receive came while the frame was on its way
		l.fillLocked(m, int(h.Offset), do)
	}
}

// landedLocked notes that n bytes of a message that was taken are in its
// tensor. The caller holds a touch of the receive. The message is over when no
// frame of it is on its way either: one without bytes is all there before its only
// frame is, and a receive that ended then would be another's when that comes.
func (l *link) landedLocked(m *message, n int, do *todo) {
	m.landed += n
	if m.landed < m.total || m.got < m.total || m.placed > 0 {
		return
	}
	if i := slices.Index(l.incoming, m); i >= 0 {
		l.incoming = slices.Delete(l.incoming, i, i+1)
		m.task.need--
		m.over = true
	}
}
