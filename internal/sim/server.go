package sim

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// server is the lighthouse's shell: it owns a Machine, carries what it is told
// and what it wants pushed, and forms what is ready. Only the ledger outlives
// it.
type server struct {
	w        *world
	m        *quorum.Machine
	ledger   quorum.Ledger
	up       bool
	life     int // rises with each start; sessions belong to one life
	sessions map[string]*session
	woken    time.Time // the wake-up that is planned
	formed   int
	joins    map[quorum.ReplicaID]quorum.Join // delivered, neither answered nor withdrawn
}

// session is one stream between a member and the server.
type session struct {
	m    *member
	life int
	open bool
	up   time.Time // nothing arrives before what was sent earlier
	down time.Time
}

func newServer(w *world, l quorum.Ledger) *server {
	return &server{
		w: w, m: quorum.New(w.now, w.o.config(), l), ledger: l, up: true,
		sessions: map[string]*session{}, joins: map[quorum.ReplicaID]quorum.Join{},
	}
}

// stop ends this life; start begins the next one, from the ledger.
func (s *server) stop() {
	s.up = false
	for _, m := range s.w.members { // in order, for the same seed is the same run
		if x := s.sessions[m.id]; x != nil {
			s.lose(x)
		}
	}
	s.w.note("lighthouse stopped")
}

func (s *server) start() {
	s.life++
	s.up, s.woken = true, time.Time{}
	s.m = quorum.New(s.w.now, s.w.o.config(), s.ledger.Clone())
	clear(s.sessions)
	clear(s.joins)
	s.w.note("lighthouse started again, life %d", s.life)
	s.turn()
}

// lose breaks a session; the member notices.
func (s *server) lose(x *session) {
	if !x.open {
		return
	}
	x.open = false
	s.w.after(s.w.between(time.Millisecond, 20*time.Millisecond), func() {
		x.m.when(func() { x.m.sessionBroke(x) })
	})
}

// broke is the server's side of a session that broke.
func (s *server) broke(x *session, why string) {
	s.w.after(s.w.between(time.Millisecond, 20*time.Millisecond), func() {
		if s.up && x.life == s.life && s.sessions[x.m.id] == x {
			delete(s.sessions, x.m.id)
			s.m.Broken(s.w.now, x.m.rid(), why, false)
			s.turn()
		}
	})
}

// up carries a message from a member; it is lost if the session breaks first.
func (s *server) receive(x *session, handle func() error) {
	at := s.w.now.Add(s.w.between(100*time.Microsecond, s.w.o.DelayMax))
	if at.Before(x.up) {
		at = x.up
	}
	x.up = at
	s.w.after(at.Sub(s.w.now), func() {
		if !s.up || !x.open || x.life != s.life {
			return
		}
		if err := handle(); err != nil {
			s.w.fail("refused", "%s: %v", x.m.id, err)
		}
		s.turn()
	})
}

// push carries a message to a member.
func (s *server) push(id quorum.ReplicaID, deliver func(m *member)) {
	x := s.sessions[string(id)]
	if x == nil || !x.open {
		return
	}
	at := s.w.now.Add(s.w.between(100*time.Microsecond, s.w.o.DelayMax))
	if at.Before(x.down) {
		at = x.down
	}
	x.down = at
	s.w.after(at.Sub(s.w.now), func() {
		if x.open {
			x.m.when(func() { deliver(x.m) })
		}
	})
}

// turn is what the shell does after every input, and when woken.
func (s *server) turn() {
	if s.w.err != nil {
		return
	}
	s.m.Advance(s.w.now)
	s.notices()
	for range 10 {
		d := s.m.Decide(s.w.now)
		if !d.Ready {
			break
		}
		s.form(d)
		s.notices()
	}
	wake := s.m.Wake(s.w.now)
	if wake.IsZero() || !s.woken.IsZero() && !wake.Before(s.woken) && s.woken.After(s.w.now) {
		return
	}
	s.woken = wake
	life := s.life
	s.w.after(wake.Sub(s.w.now), func() {
		if s.up && s.life == life {
			s.woken = time.Time{}
			s.turn()
		}
	})
}

// form carries a decision out.
func (s *server) form(d quorum.Decision) {
	last := s.m.Last()
	if d.Changed {
		if err := s.ledger.ApplyFormed(d.Command(0, quorum.Token{}, 1)); err != nil {
			s.w.fail("ledger", "%v", err)
			return
		}
	}
	q := s.m.Form(s.w.now, d, quorum.Token{}, 1)
	s.formed++
	s.w.note("formed %d.%d %v settled %v (%v)", q.ID, q.Round, ids(&q), q.Settlement, d.Reason)
	s.w.check.formed(s.w, last, &q, d)
	for _, a := range d.Answers {
		delete(s.joins, a.ReplicaID)
		s.push(a.ReplicaID, func(m *member) { m.answered(&q, a.Number) })
	}
}

func (s *server) notices() {
	for _, n := range s.m.Notices() {
		for _, id := range n.To {
			s.push(id, func(m *member) { m.notice(n) })
		}
	}
	s.w.check.heed(s.m.Events())
}

func ids(q *quorum.Quorum) []quorum.ReplicaID {
	out := make([]quorum.ReplicaID, len(q.Members))
	for i, m := range q.Members {
		out[i] = m.ReplicaID
	}
	return out
}
