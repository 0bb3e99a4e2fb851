package tcp

import "github.com/skerry-ft/skerry/pg/tcp/internal/frame"

// early is a collective's frame that came before its op.
type early struct {
	h   frame.Header
	buf *buf
}

// keepLocked keeps a frame for its op. If the op came meanwhile the frame has a
// place, and the caller lands it.
func (k *sock) keepLocked(h *frame.Header, s *slot, do *todo) (lateCopy, error) {
	l := k.l
	g := l.currentLocked(h.Epoch)
	if g == nil || g != s.group {
		l.b.stale()
		l.b.pool.put(s.buf)
		return lateCopy{}, nil
	}
	if t := g.active; t != nil && t.open && t.seq == h.Seq {
		return l.placeEarlyLocked(t, h, s.buf, do)
	}
	k.early.push(early{h: *h, buf: s.buf})
	return lateCopy{}, nil
}

// placeEarlyLocked finds the place of a frame of t whose payload is in x.
func (l *link) placeEarlyLocked(t *task, h *frame.Header, x *buf, do *todo) (lateCopy, error) {
	s, err := l.placeInLocked(t, h, x, do)
	late := lateCopy{slot: s, link: l, crc: h.CRC}
	if s.buf != x {
		late.from = x
	}
	if s.task == nil { // refused, or an announcement
		l.b.pool.put(x)
		late.from = nil
	}
	return late, err
}

// admitLocked places the early frames of t, which has just opened; the caller
// lands t.late without the lock. An error breaks the group. Each socket has its
// frames in order, but not all of them together.
func (l *link) admitLocked(t *task, do *todo) (frame.Header, error) {
	for _, k := range l.socks {
		for !k.early.empty() && k.early.first().h.Seq <= t.seq {
			e := k.early.pop()
			if e.h.Seq < t.seq {
				l.b.pool.put(e.buf) // an announcement of an op that ended without it
				l.oweLocked(frame.ClassCollective, int(e.h.Length)+frame.HeaderBytes, do)
				continue
			}
			late, err := l.placeEarlyLocked(t, &e.h, e.buf, do)
			if err != nil {
				return e.h, err
			}
			if late.slot.task != nil {
				t.late = append(t.late, late)
			}
		}
	}
	return frame.Header{}, nil
}
