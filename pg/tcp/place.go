package tcp

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// place finds where the payload of h goes. An empty slot means nowhere.
func (l *link) place(h *header) slot {
	b := l.b
	var do todo
	b.mu.Lock()
	s, err := l.placeLocked(h, &do)
	if err != nil {
		b.breakLocked(l.group, l.mismatchCause(h, err), &do)
	}
	b.mu.Unlock()
	b.do(&do)
	return s
}

// errWindow is a peer that sends more than we allowed it to.
var errWindow = errors.New("sent more than its window")

func (l *link) placeLocked(h *header, do *todo) (slot, error) {
	g, ok := l.currentLocked(h.epoch)
	if !ok {
		l.b.stale()
		return slot{}, nil
	}
	class := classOf(h.call.kind)
	if class == classCollective && l.lane != nil {
		return slot{}, fmt.Errorf("%w: frame of %v on the socket, not in shared memory", ErrCorrupt, h.call)
	}
	f, window := &l.flow[class], l.window[class]
	f.held += int(h.length) + headerBytes
	if f.held > window {
		return slot{}, fmt.Errorf("%w: %w: %d bytes, window %d", ErrCorrupt, errWindow, f.held, window)
	}
	if h.call.kind == pg.KindSend {
		return l.placeMessageLocked(g, h, do)
	}
	t := g.active
	if t != nil && t.open && t.seq == h.seq {
		return l.placeInLocked(t, h, nil, do)
	}
	if past := h.seq <= g.startedLocked(); past {
		l.oweLocked(classCollective, int(h.length)+headerBytes, do)
		if h.total == 0 {
			return slot{}, nil // an announcement; the op is over here
		}
		return slot{}, fmt.Errorf("%w: frame of %v, which is complete here", pg.ErrMismatch, h.call)
	}
	x := l.b.pool.get(int(h.length))
	return slot{group: g, dst: x.b, buf: x, cell: -1, early: true}, nil
}

// startedLocked is the seq of the last collective whose frames can be placed
// or are over.
func (g *group) startedLocked() uint64 {
	if t := g.active; t != nil && t.open {
		return t.seq
	}
	if t := g.active; t != nil {
		return t.seq - 1
	}
	if t := g.queue.peek(); t != nil {
		return t.seq - 1
	}
	return g.seq
}

// placeInLocked finds the place of a frame of the op under way. have is its
// payload, if that is there already.
func (l *link) placeInLocked(t *task, h *header, have *buf, do *todo) (slot, error) {
	want := t.call
	want.small, want.relay = false, false
	if h.call != want {
		err := fmt.Errorf("%w: seq %d: %s called %v, rank %d called %v",
			pg.ErrMismatch, t.seq, l.peerName(), h.call, t.group.rank, t.call)
		return slot{}, roundError(&h.call, &want, err)
	}
	st := &t.peers[l.rank].in[h.phase]
	cost := int(h.length) + headerBytes
	if !st.used {
		l.oweLocked(classCollective, cost, do)
		if h.total > 0 {
			return slot{}, fmt.Errorf("%w: seq %d: %s sent %d bytes of %v, rank %d wants none",
				pg.ErrMismatch, t.seq, l.peerName(), h.total, h.call, t.group.rank)
		}
		return slot{}, nil // an announcement
	}
	found := l.seekLocked(st, h.phase, h.offset)
	if found == nil {
		return slot{}, fmt.Errorf("%w: seq %d: %s sent bytes %d to %d of %d of %v, rank %d wants others, from %d of %d",
			pg.ErrMismatch, t.seq, l.peerName(), h.offset, h.offset+uint64(h.length), h.total, h.call,
			t.group.rank, st.done, st.total)
	}
	st = found
	n := st.size()
	if st.anySize {
		n = min(int(h.length), maxBallotFrame)
	}
	if int(h.length) != n || h.total != uint64(st.total) && !st.anySize {
		return slot{}, fmt.Errorf("%w: seq %d: %s sent bytes %d to %d of %d of %v, rank %d wants %d to %d of %d",
			pg.ErrMismatch, t.seq, l.peerName(), h.offset, h.offset+uint64(h.length), h.total, h.call,
			t.group.rank, st.done, st.done+n, st.total)
	}
	t.touch++
	s := slot{task: t, group: t.group, cell: -1, crc: t.slotOf(st)}
	if st.scratch {
		s.cell = st.piece
		s.buf = have
		if have == nil {
			s.buf = l.b.pool.get(n)
		}
		s.dst = s.buf.b
		if st.anySize {
			st.piece++
		} else {
			st.take()
		}
		return s, nil
	}
	s.dst = st.take()
	l.oweLocked(classCollective, cost, do)
	return s, nil
}

// errOtherRound is beside the error of a frame of another round of the same quorum: one of
// the two ranks has not had the newest answer. Neither calls anything odd.
var errOtherRound = errors.New("another round")

// roundError puts errOtherRound beside err if that is why two calls differ.
func roundError(a, b *call, err error) error {
	if a.round == b.round {
		return err
	}
	return fmt.Errorf("%w: %w", errOtherRound, err)
}

// mismatchCause is the cause for a frame that does not fit.
func (l *link) mismatchCause(h *header, err error) cause {
	c := cause{
		code: abortMismatch, peer: l.rank, peerID: l.key.replicaID,
		kind: h.call.kind, seq: h.seq, err: err, first: !errors.Is(err, errOtherRound),
	}
	if errors.Is(err, ErrCorrupt) {
		c.code, c.first = abortCorrupt, false
		c.err = fmt.Errorf("%w: %w", pg.ErrPeerLost, err)
	}
	return c
}
