package sim

import "time"

// pair is a direction between two members.
type pair struct{ from, to string }

// wire is one direction of a link between two members. What is sent arrives in
// order, or never.
type wire struct {
	last time.Time // nothing arrives before what was sent earlier
	cut  time.Time // until then everything is lost
	gen  int       // rises with each cut, which also loses what is under way
}

func (w *world) wire(from, to *member) *wire {
	p := pair{from.id, to.id}
	if w.wires[p] == nil {
		w.wires[p] = &wire{}
	}
	return w.wires[p]
}

// send carries a message from one member to another.
func (w *world) send(from, to *member, deliver func()) {
	l := w.wire(from, to)
	if w.now.Before(l.cut) {
		return
	}
	at := w.now.Add(w.between(100*time.Microsecond, w.o.DelayMax))
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	gen := l.gen
	w.after(at.Sub(w.now), func() {
		if l.gen == gen {
			to.when(deliver)
		}
	})
}

// cutLink loses everything between two members for a while. Both notice: at
// once by a reset, or when their link beats stay out.
func (w *world) cutLink(a, b *member, lasts time.Duration) {
	notice := w.between(time.Millisecond, 20*time.Millisecond)
	if w.rng.IntN(2) == 0 {
		notice = linkSilence
	}
	for _, d := range [][2]*member{{a, b}, {b, a}} {
		l := w.wire(d[0], d[1])
		l.cut, l.gen = w.now.Add(lasts), l.gen+1
		w.after(notice, func() { d[0].when(func() { d[0].linkBroke(d[1]) }) })
	}
	w.note("link %s %s cut for %v, noticed after %v", a.id, b.id, lasts, notice)
}

// peersNotice tells all peers of m that their links to it broke.
func (w *world) peersNotice(m *member, after time.Duration) {
	for _, p := range w.members {
		if p != m && p.up {
			w.after(after, func() { p.when(func() { p.linkBroke(m) }) })
		}
	}
}
