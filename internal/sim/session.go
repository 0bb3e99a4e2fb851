package sim

import "time"

// session is one stream between a member and the leader, through any server
// that is up. What is sent on it arrives in order or never; what breaks it
// loses what is under way.
type session struct {
	m     *member
	r     *leadership
	via   *server
	open  bool
	gone  bool // the leader knows that it broke
	began int64
	up    int64 // nothing arrives before what was sent earlier
	down  int64
}

func (w *world) reach(m *member, s *server) int64 { return m.cutOff[s.index] }

// delay is how long one message of the session takes: longer through a server
// that forwards; while the member is cut off it waits, as TCP does.
func (x *session) delay(last int64) int64 {
	w := x.m.w
	d := w.between(100*time.Microsecond, w.o.DelayMax)
	if x.via != x.r.s {
		d += w.between(100*time.Microsecond, w.o.DelayMax)
	}
	if x.m.slow > w.now {
		d *= slowdown
	}
	at := w.now + int64(d)
	if cut := w.reach(x.m, x.via); cut > w.now {
		at = max(at, cut+int64(d))
	}
	if cut := w.cutServers[x.via.index][x.r.s.index]; cut > w.now && x.via != x.r.s {
		at = max(at, cut+int64(d))
	}
	return max(at, last)
}

// slowdown is by how much a slow member is slower.
const slowdown = 15

// receive carries a message to the leader, sometimes twice.
func (x *session) receive(handle func(now time.Time)) {
	x.up = x.delay(x.up)
	x.deliver(handle)
	if w := x.m.w; w.repeats > 0 && w.rng.IntN(3) == 0 {
		w.repeats--
		x.up = x.delay(x.up)
		x.deliver(handle)
	}
}

// tell carries a message of the member to the leader, if it has a session.
func (m *member) tell(handle func(r *leadership, now time.Time)) {
	if m.connected() {
		r := m.x.r
		m.x.receive(func(now time.Time) { handle(r, now) })
	}
}

func (x *session) deliver(handle func(now time.Time)) {
	w := x.m.w
	w.at(x.up, func() {
		if !x.open {
			return
		}
		x.r.s.when(func() {
			r := x.r
			if !x.open || r.over {
				return
			}
			r.take(func(now time.Time) {
				if r.sessions[x.m.id] == x {
					handle(now)
				}
			})
		})
	})
}

// push carries a message to the member.
func (x *session) push(deliver func(m *member)) {
	x.down = x.delay(x.down)
	x.m.w.at(x.down, func() {
		if x.open {
			x.m.when(func() {
				if x.open {
					deliver(x.m)
				}
			})
		}
	})
}

// lose ends the stream; the member notices. Quietly: the leader does not, for
// it ended the stream itself, or is gone.
func (x *session) lose(quiet bool) {
	if !x.open {
		return
	}
	x.open = false
	w := x.m.w
	w.after(w.between(time.Millisecond, 20*time.Millisecond), func() { x.m.when(func() { x.m.sessionBroke(x) }) })
	if !quiet {
		x.broke("cut", false)
	}
}

// broke tells the leader that the stream broke.
func (x *session) broke(why string, withServer bool) {
	w, r := x.m.w, x.r
	if x.gone {
		return
	}
	x.gone = true
	w.after(w.between(time.Millisecond, 20*time.Millisecond), func() {
		r.s.when(func() {
			if r.over {
				return
			}
			r.take(func(now time.Time) {
				if r.sessions[x.m.id] != x {
					return
				}
				delete(r.sessions, x.m.id)
				r.book.Broken(now.Sub(epochStart), x.m.id, withServer)
				r.m.Broken(now, x.m.rid(), why, withServer)
			})
		})
	})
}
