package sim

import "time"

// event is something that happens at a time: a step message to its receiver,
// or do. Equal times keep their order.
type event struct {
	do    func()
	msg   *stepMessage // do is nil: to takes it
	to    *member
	link  *wire
	gen   int
	timer *member // whose clock ends it early when it jumps; nil: nobody's
}

// wire is one direction of a link between two members. What is sent arrives in
// order, or never.
type wire struct {
	last int64 // nothing arrives before what was sent earlier
	cut  int64 // until then everything is lost
	gen  int   // rises with each cut, which also loses what is under way
}

func (m *member) wire(to *member) *wire {
	for len(m.out) <= to.index {
		m.out = append(m.out, nil)
	}
	if m.out[to.index] == nil {
		m.out[to.index] = &wire{}
	}
	return m.out[to.index]
}

// send carries a message from one member to another.
func (w *world) send(from, to *member, deliver func()) {
	if l := w.schedule(from, to); l != nil {
		w.queue.Push(l.last, event{do: deliver, to: to, link: l, gen: l.gen})
	}
}

// sendStep is send for what most messages are.
func (w *world) sendStep(from *member, to *rank, s *stepMessage) {
	if l := w.schedule(from, to.m); l != nil {
		w.queue.Push(l.last, event{msg: s, to: to.m, link: l, gen: l.gen})
	}
}

// schedule draws when the next message of a link arrives; nil: never.
func (w *world) schedule(from, to *member) *wire {
	l := from.wire(to)
	if w.now < l.cut {
		return nil
	}
	d := w.between(100*time.Microsecond, w.o.DelayMax)
	if from.slow > w.now || to.slow > w.now {
		d *= slowdown
	}
	l.last = max(l.last, w.now+int64(d))
	return l
}

// arrive delivers what was sent on a link.
func (w *world) arrive(e *event) {
	switch {
	case e.link.gen != e.gen || !e.to.up:
	case w.now < e.to.asleep:
		w.queue.Push(e.to.asleep, *e)
	case e.msg != nil:
		e.to.ranks[e.msg.from.g].receive(e.msg)
	default:
		e.do()
	}
}

// cutLink loses everything between two members for a while, in one direction or
// both. Both notice: at once by a reset, or when their link beats stay out.
func (w *world) cutLink(a, b *member, lasts time.Duration, oneWay bool) {
	w.linkChanged()
	w.after(lasts, w.linkChanged)
	notice := w.between(time.Millisecond, 20*time.Millisecond)
	if oneWay || w.rng.IntN(2) == 0 {
		notice = linkSilence
	}
	for i, d := range [][2]*member{{a, b}, {b, a}} {
		if i == 0 || !oneWay {
			l := d[0].wire(d[1])
			l.cut, l.gen = max(l.cut, w.now+int64(lasts)), l.gen+1
		}
		if i == 0 && oneWay {
			continue // who can not be heard hears well, until the other end closes
		}
		back := d[1].wire(d[0]) // what it misses
		in := d[0].quorumID()
		w.after(notice, func() {
			d[0].when(func() {
				// In a later quorum it can only break if it was made there.
				for g, r := range d[0].ranks {
					if r.QuorumID() == in || back.cut > w.now && r.helloOf(d[1]) == r.QuorumID() {
						r.linkBroke(d[1].ranks[g])
					}
				}
			})
		})
	}
	w.note("link %s %s cut for %v (one way %t), noticed after %v", a.id, b.id, lasts, oneWay, notice)
}

// peersNotice tells all peers of m that their links to it broke.
func (w *world) peersNotice(m *member, after time.Duration) {
	for _, p := range w.members {
		if p == m || !p.up {
			continue
		}
		in := p.quorumID()
		w.after(after, func() {
			p.when(func() {
				for g, r := range p.ranks {
					if r.QuorumID() == in || !m.up || m.asleep > w.now {
						r.linkBroke(m.ranks[g])
					}
				}
			})
		})
	}
}

// quorumID is the quorum that a member is or was in; 0: none.
func (m *member) quorumID() int64 { return m.first().QuorumID() }
