package raft

import (
	"errors"
	"time"
)

// ErrNotLeader ends a command or a check of leadership of a server that does not lead,
// or not any more. The command may still take effect.
var ErrNotLeader = errors.New("this lighthouse does not lead")

// Times of servers.
const (
	Election = 300 * time.Millisecond // without a leader, to twice that, drawn
	lease    = 200 * time.Millisecond // a leader that did not hear a majority for so long gives up
	interval = 70 * time.Millisecond  // between two heartbeats
)

// Host is the process that a server runs in. C is a command, of which the zero value
// changes nothing.
type Host[C any] interface {
	// Now is the time, in nanoseconds.
	Now() int64
	// Between draws a duration.
	Between(lo, hi time.Duration) time.Duration
	// After calls do after d, unless the process has ended by then.
	After(d time.Duration, do func())
	// Send calls handle in another server's process after a while, or never.
	Send(to int, handle func())
	// Note tells people what happens.
	Note(format string, args ...any)

	// Apply carries out a committed command; index counts from 1.
	Apply(index int, c C) error
	// Lead tells that the server leads, and all of earlier terms is applied.
	Lead()
	// Dismiss tells that it leads no more.
	Dismiss()
}

// Group is the servers that elect one of them.
type Group[C any] struct{ servers []*Server[C] }

// Server is one of them. Term, vote and log survive a crash.
type Server[C any] struct {
	group *Group[C]
	host  Host[C]
	index int

	term    uint64
	vote    int // index of the candidate voted for in term; -1: none
	log     []entry[C]
	commit  int // entries known to be committed
	applied int

	leads   bool
	leader  int // which server it follows; -1: unknown
	votes   int
	due     int64 // of its election
	match   []int
	contact []int64 // when each server was last heard, as leader
	round   uint64  // of heartbeats
	acked   []uint64
	checks  []check
}

// entry is one record of the log; a zero command is a new leader's barrier.
type entry[C any] struct {
	term uint64
	cmd  C
	done func(error) // at the server that appended it, in that term; nil once called
}

// check is one Verify that waits.
type check struct {
	round uint64
	done  func(error)
}

// Add adds a server, which waits to hear a leader. All are added before time goes on.
func (g *Group[C]) Add(host Host[C]) *Server[C] {
	s := &Server[C]{group: g, host: host, index: len(g.servers), vote: -1, leader: -1}
	g.servers = append(g.servers, s)
	s.await()
	return s
}

// Leads says that the server leads, as it believes itself.
func (s *Server[C]) Leads() bool { return s.leads }

// Leader is the index of the server that it follows, or its own; -1: it knows none.
func (s *Server[C]) Leader() int { return s.leader }

// Term is the newest that it knows.
func (s *Server[C]) Term() uint64 { return s.term }

// Round counts its heartbeats as leader.
func (s *Server[C]) Round() uint64 { return s.round }

// Log is how many entries it has, and how many it knows to be committed.
func (s *Server[C]) Log() (all, committed int) { return len(s.log), s.commit }

// await starts an election if no leader is heard for a while.
func (s *Server[C]) await() {
	wait := s.host.Between(Election, 2*Election)
	s.due = s.host.Now() + int64(wait)
	s.watch()
}

func (s *Server[C]) watch() {
	due := s.due
	s.host.After(time.Duration(due-s.host.Now()), func() {
		switch {
		case s.leads:
		case s.due > due:
			s.watch()
		default:
			s.campaign()
			s.due = s.host.Now() + int64(s.host.Between(Election, 2*Election))
			s.watch()
		}
	})
}

func (s *Server[C]) heard() {
	s.due = max(s.due, s.host.Now()+int64(s.host.Between(Election, 2*Election)))
}

func (s *Server[C]) lastTerm() uint64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].term
}

func (s *Server[C]) campaign() {
	s.term++
	s.vote, s.votes, s.leader = s.index, 1, -1
	term, last, n := s.term, s.lastTerm(), len(s.log)
	if s.majority(s.votes) {
		s.win()
		return
	}
	for _, o := range s.group.servers {
		if o == s {
			continue
		}
		s.host.Send(o.index, func() {
			o.observe(term)
			if term < o.term || o.vote >= 0 && o.vote != s.index || o.lastTerm() > last || o.lastTerm() == last && len(o.log) > n {
				return
			}
			o.vote = s.index
			o.heard()
			o.host.Send(s.index, func() {
				if s.term != term || s.leads || s.vote != s.index {
					return
				}
				if s.votes++; s.majority(s.votes) {
					s.win()
				}
			})
		})
	}
}

func (s *Server[C]) majority(n int) bool { return 2*n > len(s.group.servers) }

// observe steps down before a higher term.
func (s *Server[C]) observe(term uint64) {
	if term <= s.term {
		return
	}
	s.term, s.vote, s.leader = term, -1, -1
	s.stepDown("a higher term")
}

func (s *Server[C]) stepDown(why string) {
	if !s.leads {
		return
	}
	s.leads = false
	s.host.Note("server %d leads no more: %s", s.index, why)
	s.await()
	for i := range s.log[s.commit:] {
		if done := s.log[s.commit+i].done; done != nil {
			s.log[s.commit+i].done = nil
			done(ErrNotLeader)
		}
	}
	checks := s.checks
	s.checks = nil
	for _, c := range checks {
		c.done(ErrNotLeader)
	}
	s.host.Dismiss()
}

// win begins to lead: nothing is decided before the log of all earlier terms
// has reached the ledger.
func (s *Server[C]) win() {
	n := len(s.group.servers)
	s.leads, s.leader = true, s.index
	s.match, s.contact, s.acked = make([]int, n), make([]int64, n), make([]uint64, n)
	for i := range s.contact {
		s.contact[i] = s.host.Now()
	}
	s.host.Note("server %d leads in term %d", s.index, s.term)
	term := s.term
	begin := func(err error) {
		if err == nil && s.leads && s.term == term {
			s.host.Lead()
		}
	}
	var barrier C
	s.Append(barrier, begin)
	s.beat(term)
}

// beat sends heartbeats for as long as it leads, and gives up the lead when a
// majority was silent for a lease.
func (s *Server[C]) beat(term uint64) {
	if !s.leads || s.term != term {
		return
	}
	fresh := 1
	for i, at := range s.contact {
		if i != s.index && s.host.Now()-at <= int64(lease) {
			fresh++
		}
	}
	if !s.majority(fresh) {
		s.stepDown("its lease is over")
		return
	}
	s.replicate()
	s.host.After(interval, func() { s.beat(term) })
}

// Append adds a command to the leader's log and sends it out. Unless done is nil, it is
// called once, with what Apply said or with ErrNotLeader; after a Stop never.
func (s *Server[C]) Append(c C, done func(error)) {
	s.log = append(s.log, entry[C]{s.term, c, done})
	s.match[s.index] = len(s.log)
	s.replicate()
	s.advance()
}

// replicate sends each follower what it lacks, with the number of this round.
func (s *Server[C]) replicate() {
	s.round++
	term, round := s.term, s.round
	for _, o := range s.group.servers {
		if o == s {
			continue
		}
		log, sent, commit := s.log[:len(s.log):len(s.log)], s.match[o.index], s.commit
		s.host.Send(o.index, func() { o.take(s, term, round, log, sent, commit) })
	}
}

// take is AppendEntries of what comes behind the entries that were sent before; log is all
// of it, so that a follower that lacks some of those needs no second message.
func (s *Server[C]) take(from *Server[C], term, round uint64, log []entry[C], sent, commit int) {
	s.observe(term)
	if term < s.term {
		return
	}
	s.leader = from.index
	s.heard()
	all := len(log)
	i := min(sent, len(s.log))
	for i > s.commit && s.log[i-1].term != log[i-1].term {
		i--
	}
	for ; i < all; i++ {
		e := log[i]
		e.done = nil
		if i < len(s.log) {
			if s.log[i].term == e.term {
				continue
			}
			s.log = s.log[:i:i]
		}
		s.log = append(s.log, e)
	}
	s.commit = max(s.commit, min(commit, all))
	s.apply()
	s.host.Send(from.index, func() {
		if !from.leads || from.term != term {
			return
		}
		from.contact[s.index] = from.host.Now()
		from.match[s.index] = max(from.match[s.index], all)
		from.acked[s.index] = max(from.acked[s.index], round)
		from.advance()
		from.checked()
	})
}

// advance commits what a majority holds, of this term.
func (s *Server[C]) advance() {
	for n := len(s.log); n > s.commit && s.log[n-1].term == s.term; n-- {
		have := 0
		for _, m := range s.match {
			if m >= n {
				have++
			}
		}
		if s.majority(have) {
			s.commit = n
			break
		}
	}
	s.apply()
}

// apply carries committed commands out, and tells who waits for them.
func (s *Server[C]) apply() {
	for s.applied < s.commit {
		e := &s.log[s.applied]
		s.applied++
		err := s.host.Apply(s.applied, e.cmd)
		if done := e.done; done != nil {
			e.done = nil
			done(err)
		}
	}
}

// Verify calls done with nil if this server led in its term at some moment
// after the call.
func (s *Server[C]) Verify(done func(error)) {
	if !s.leads {
		done(ErrNotLeader)
		return
	}
	if len(s.group.servers) == 1 {
		done(nil)
		return
	}
	s.checks = append(s.checks, check{s.round + 1, done})
	s.replicate()
}

func (s *Server[C]) checked() {
	for len(s.checks) > 0 {
		have := 1
		for i, r := range s.acked {
			if i != s.index && r >= s.checks[0].round {
				have++
			}
		}
		if !s.majority(have) {
			return
		}
		done := s.checks[0].done
		s.checks = s.checks[1:]
		done(nil)
	}
}

// Stop is what a kill makes of it: nothing is called any more, nor does it lead. The host
// sees to it that no callback of its life until now comes.
func (s *Server[C]) Stop() {
	s.leads, s.checks, s.leader = false, nil, -1
	for i := range s.log {
		s.log[i].done = nil
	}
}

// Start goes on after Stop, with the same data.
func (s *Server[C]) Start() {
	s.commit = s.applied // what it knew; the rest it learns again
	s.await()
}
