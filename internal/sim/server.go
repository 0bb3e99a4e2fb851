package sim

import (
	"time"

	"github.com/skerry-ft/skerry/internal/sim/raft"
	"github.com/skerry-ft/skerry/quorum"
)

// server is one lighthouse server: a process with its clocks, a raft server, the ledger
// that this replicates, and, while it leads, a leadership. The ledger survives a crash.
type server struct {
	*raft.Server[command]

	w         *world
	index     int
	up        bool
	life      int
	asleep    int64         // stopped until then
	skew      time.Duration // of its monotonic clock, which only jumps ahead
	wall      time.Duration // of its wall clock
	disturbed int64         // until when a fault was at work here

	ledger     quorum.Ledger
	leadership *leadership
}

// command is what the lighthouse replicates.
type command struct {
	formed *quorum.Formed
	config *quorum.Config
	drain  quorum.ReplicaID
	undo   quorum.ReplicaID // its drain
	evict  quorum.ReplicaID
}

// newServer adds the server with the next index.
func (w *world) newServer() {
	s := &server{w: w, index: len(w.servers), up: true, ledger: quorum.NewLedger("x", "default", 0)}
	w.servers = append(w.servers, s)
	s.Server = w.raft.Add(s)
}

// when does something at the server: never if it is down or was restarted,
// later while it is stopped.
func (s *server) when(do func()) {
	life := s.life
	var try func()
	try = func() {
		switch {
		case !s.up || s.life != life:
		case s.w.now < s.asleep:
			s.w.at(s.asleep, try)
		default:
			do()
		}
	}
	try()
}

// Now is the world's time.
func (s *server) Now() int64 { return s.w.now }

// Between draws a duration.
func (s *server) Between(lo, hi time.Duration) time.Duration { return s.w.between(lo, hi) }

// Note keeps an event for people.
func (s *server) Note(format string, args ...any) { s.w.note(format, args...) }

// After is a timer of the server's process.
func (s *server) After(d time.Duration, do func()) {
	life := s.life
	s.w.after(d, func() {
		if s.life == life {
			s.when(do)
		}
	})
}

// Send carries a message to another server; a cut link loses it.
func (s *server) Send(to int, handle func()) {
	if s.w.cutServers[s.index][to] > s.w.now {
		return
	}
	o := s.w.servers[to]
	s.w.after(s.w.between(100*time.Microsecond, s.w.o.DelayMax/2+time.Millisecond), func() { o.when(handle) })
}

// Apply is the FSM.
func (s *server) Apply(index int, c command) error {
	var err error
	switch {
	case c.formed != nil:
		f := *c.formed
		if s.w.mutant.onApply != nil {
			s.w.mutant.onApply(&s.ledger, &f)
		}
		if err = s.ledger.ApplyFormed(f); err == nil {
			s.w.check.Written(index, f)
		}
		if s.w.mutant.onLedger != nil {
			s.w.mutant.onLedger(&s.ledger)
		}
	case c.config != nil:
		err = s.ledger.ApplyConfig(*c.config)
	case c.drain != "":
		err = s.ledger.ApplyDrain(c.drain)
	case c.undo != "":
		err = s.ledger.ApplyUndrain(c.undo)
	case c.evict != "":
		err = s.ledger.ApplyEvict(c.evict)
	}
	return err
}

// Dismiss ends the leadership.
func (s *server) Dismiss() {
	if s.leadership != nil {
		s.leadership.end()
	}
}

// verify calls done with nil if this server led in its term at some moment
// after the call.
func (s *server) verify(done func(error)) {
	if s.Leads() && s.w.mutant.noVerify {
		done(nil)
		return
	}
	s.Verify(done)
}

// stop is SIGKILL; start is the same data dir again.
func (s *server) stop() {
	s.up = false
	s.life++
	s.w.note("server %d is killed", s.index)
	s.Stop()
	if s.leadership != nil {
		s.leadership.vanish()
	}
	for _, m := range s.w.members {
		if m.x != nil && m.x.via == s {
			m.x.lose(true)
		}
	}
}

func (s *server) start() {
	if s.up {
		return
	}
	s.up = true
	s.life++
	s.asleep = 0
	s.w.note("server %d is started", s.index)
	s.Start()
}
