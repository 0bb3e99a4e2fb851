package tcp

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// place finds where the payload of h goes. An empty slot means nowhere.
func (l *link) place(h *frame.Header) slot {
	b := l.b
	var do todo
	b.mu.Lock()
	s, err := l.placeLocked(h, &do)
	if err != nil {
		b.breakLocked(l.group, l.mismatchCause(h, err), &do)
	}
	b.unlock(&do)
	return s
}

// errWindow is a peer that sends more than we allowed it to.
var errWindow = errors.New("sent more than its window")

func (l *link) placeLocked(h *frame.Header, do *todo) (slot, error) {
	g := l.currentLocked(h.Epoch)
	if g == nil {
		l.b.stale()
		return slot{}, nil
	}
	class := frame.ClassOf(h.Call.Kind)
	if class == frame.ClassCollective && l.lane != nil {
		return slot{}, fmt.Errorf("%w: frame of %v on the socket, not in shared memory", ErrCorrupt, h.Call)
	}
	f, window := &l.flow[class], l.window[class]
	f.held += int(h.Length) + frame.HeaderBytes
	if f.held > window {
		return slot{}, fmt.Errorf("%w: %w: %d bytes, window %d", ErrCorrupt, errWindow, f.held, window)
	}
	if h.Call.Kind == pg.KindSend {
		return l.placeMessageLocked(g, h, do)
	}
	t := g.active
	if t != nil && t.open && t.seq == h.Seq {
		return l.placeInLocked(t, h, nil, do)
	}
	if past := h.Seq <= g.startedLocked(); past {
		l.oweLocked(frame.ClassCollective, int(h.Length)+frame.HeaderBytes, do)
		if h.Total == 0 {
			return slot{}, nil // an announcement; the op is over here
		}
		return slot{}, fmt.Errorf("%w: frame of %v, which is complete here", pg.ErrMismatch, h.Call)
	}
	x := l.b.pool.get(int(h.Length))
	return slot{group: g, dst: x.b, buf: x, cell: -1, early: true}, nil
}

// startedLocked is the seq of the last collective whose frames can be placed
// or are over.
func (g *group) startedLocked() uint64 {
	switch t := g.active; {
	case t != nil && t.open:
		return t.seq
	case t != nil:
		return t.seq - 1
	case !g.queue.empty():
		return (*g.queue.first()).seq - 1
	}
	return g.seq
}

// placeInLocked finds the place of a frame of the op under way. have is its
// payload, if that is there already.
func (l *link) placeInLocked(t *task, h *frame.Header, have *buf, do *todo) (slot, error) {
	want := t.call
	want.Small, want.Relay = false, false
	if h.Call != want {
		err := fmt.Errorf("%w: seq %d: %s called %v, rank %d called %v",
			pg.ErrMismatch, t.seq, l.peerName(), h.Call, t.group.rank, t.call)
		return slot{}, roundError(&h.Call, &want, err)
	}
	st := &t.peers[l.rank].in[h.Phase]
	cost := int(h.Length) + frame.HeaderBytes
	if !st.used {
		l.oweLocked(frame.ClassCollective, cost, do)
		if h.Total > 0 {
			return slot{}, fmt.Errorf("%w: seq %d: %s sent %d bytes of %v, rank %d wants none",
				pg.ErrMismatch, t.seq, l.peerName(), h.Total, h.Call, t.group.rank)
		}
		return slot{}, nil // an announcement
	}
	found := l.seekLocked(st, h.Phase, h.Offset)
	if found == nil {
		return slot{}, fmt.Errorf("%w: seq %d: %s sent bytes %d to %d of %d of %v, rank %d wants others, from %d of %d",
			pg.ErrMismatch, t.seq, l.peerName(), h.Offset, h.Offset+uint64(h.Length), h.Total, h.Call,
			t.group.rank, st.done, st.total)
	}
	st = found
	n := st.size()
	if st.anySize {
		n = min(int(h.Length), frame.MaxBallot)
	}
	if int(h.Length) != n || h.Total != uint64(st.total) && !st.anySize {
		return slot{}, fmt.Errorf("%w: seq %d: %s sent bytes %d to %d of %d of %v, rank %d wants %d to %d of %d",
			pg.ErrMismatch, t.seq, l.peerName(), h.Offset, h.Offset+uint64(h.Length), h.Total, h.Call,
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
	l.oweLocked(frame.ClassCollective, cost, do)
	return s, nil
}

// errOtherRound is beside the error of a frame of another round of the same quorum: one of
// the two ranks has not had the newest answer. Neither calls anything odd.
var errOtherRound = errors.New("another round")

// roundError puts errOtherRound beside err if that is why two calls differ.
func roundError(a, b *frame.Call, err error) error {
	if a.Round == b.Round {
		return err
	}
	return fmt.Errorf("%w: %w", errOtherRound, err)
}

// mismatchCause is the cause for a frame that does not fit.
func (l *link) mismatchCause(h *frame.Header, err error) frame.Cause {
	c := frame.Cause{
		Code: frame.CodeMismatch, Peer: l.rank, PeerID: l.key.replicaID,
		Kind: h.Call.Kind, Seq: h.Seq, Err: err, First: !errors.Is(err, errOtherRound),
	}
	if errors.Is(err, ErrCorrupt) {
		c.Code, c.First = frame.CodeCorrupt, false
		c.Err = fmt.Errorf("%w: %w", pg.ErrPeerLost, err)
	}
	return c
}
