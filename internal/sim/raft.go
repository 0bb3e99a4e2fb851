package sim

import (
	"errors"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// errNotLeader and errTimeout are what a command or a check of leadership can
// end with; after either the command may still take effect.
var (
	errNotLeader = errors.New("this lighthouse does not lead")
	errTimeout   = errors.New("the reply was lost")
)

// entry is one record of the log; a command without a kind is a new leader's
// barrier.
type entry struct {
	term uint64
	cmd  command
}

// command is what the lighthouse replicates.
type command struct {
	formed *quorum.Formed
	config *quorum.Config
	drain  quorum.ReplicaID
	evict  quorum.ReplicaID
	done   func(error) // at the server that appended it, in that term; cleared once called
}

// server is one lighthouse server: a small raft without membership changes, the
// ledger that it replicates, and, while it leads, a leadership. Term, vote, log and
// ledger survive a crash.
type server struct {
	w         *world
	index     int
	up        bool
	life      int
	asleep    int64         // stopped until then
	skew      time.Duration // of its monotonic clock, which only jumps ahead
	wall      time.Duration // of its wall clock
	disturbed int64         // until when a fault was at work here

	term    uint64
	vote    int // index of the candidate voted for in term; -1: none
	log     []entry
	commit  int // entries known to be committed
	applied int
	ledger  quorum.Ledger

	leads   bool
	leader  int // whom it follows; -1: unknown
	votes   int
	due     int64 // of its election
	match   []int
	contact []int64 // when each server was last heard, as leader
	round   uint64  // of heartbeats
	acked   []uint64
	checks  []check

	leadership *leadership
}

// check is one VerifyLeader that waits.
type check struct {
	round uint64
	done  func(error)
}

func (w *world) newServer(i int) *server {
	s := &server{w: w, index: i, up: true, vote: -1, leader: -1, ledger: quorum.NewLedger("x", "default", 0)}
	s.await()
	return s
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

func (s *server) after(d time.Duration, do func()) {
	life := s.life
	s.w.after(d, func() {
		if s.life == life {
			s.when(do)
		}
	})
}

// tell carries a message to another server; a cut link loses it.
func (s *server) tell(to *server, handle func()) {
	if s.w.cutServers[s.index][to.index] > s.w.now {
		return
	}
	s.w.after(s.w.between(100*time.Microsecond, s.w.o.DelayMax/2+time.Millisecond), func() { to.when(handle) })
}

// await starts an election if no leader is heard for a while.
func (s *server) await() {
	wait := s.w.between(raftElection, 2*raftElection)
	s.due = s.w.now + int64(wait)
	s.watch()
}

func (s *server) watch() {
	due := s.due
	s.after(time.Duration(due-s.w.now), func() {
		switch {
		case s.leads:
		case s.due > due:
			s.watch()
		default:
			s.campaign()
			s.due = s.w.now + int64(s.w.between(raftElection, 2*raftElection))
			s.watch()
		}
	})
}

func (s *server) heard() {
	s.due = max(s.due, s.w.now+int64(s.w.between(raftElection, 2*raftElection)))
}

func (s *server) lastTerm() uint64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].term
}

func (s *server) campaign() {
	s.term++
	s.vote, s.votes, s.leader = s.index, 1, -1
	term, last, n := s.term, s.lastTerm(), len(s.log)
	if s.majority(s.votes) {
		s.win()
		return
	}
	for _, o := range s.w.servers {
		if o == s {
			continue
		}
		s.tell(o, func() {
			o.observe(term)
			if term < o.term || o.vote >= 0 && o.vote != s.index || o.lastTerm() > last || o.lastTerm() == last && len(o.log) > n {
				return
			}
			o.vote = s.index
			o.heard()
			o.tell(s, func() {
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

func (s *server) majority(n int) bool { return 2*n > len(s.w.servers) }

// observe steps down before a higher term.
func (s *server) observe(term uint64) {
	if term <= s.term {
		return
	}
	s.term, s.vote, s.leader = term, -1, -1
	s.stepDown("a higher term")
}

func (s *server) stepDown(why string) {
	if !s.leads {
		return
	}
	s.leads = false
	s.w.note("server %d leads no more: %s", s.index, why)
	s.await()
	for i := range s.log[s.commit:] {
		if done := s.log[s.commit+i].cmd.done; done != nil {
			s.log[s.commit+i].cmd.done = nil
			done(errNotLeader)
		}
	}
	checks := s.checks
	s.checks = nil
	for _, c := range checks {
		c.done(errNotLeader)
	}
	if s.leadership != nil {
		s.leadership.end()
	}
}

// win begins to lead: nothing is decided before the log of all earlier terms
// has reached the ledger.
func (s *server) win() {
	n := len(s.w.servers)
	s.leads, s.leader = true, s.index
	s.match, s.contact, s.acked = make([]int, n), make([]int64, n), make([]uint64, n)
	for i := range s.contact {
		s.contact[i] = s.w.now
	}
	s.w.note("server %d leads in term %d", s.index, s.term)
	term := s.term
	begin := func(err error) {
		if err == nil && s.leads && s.term == term {
			s.lead()
		}
	}
	s.append(command{done: begin})
	s.beat(term)
}

// beat sends heartbeats for as long as it leads, and gives up the lead when a
// majority was silent for a lease.
func (s *server) beat(term uint64) {
	if !s.leads || s.term != term {
		return
	}
	fresh := 1
	for i, at := range s.contact {
		if i != s.index && s.w.now-at <= int64(raftLease) {
			fresh++
		}
	}
	if !s.majority(fresh) {
		s.stepDown("its lease is over")
		return
	}
	s.replicate()
	s.after(raftBeat, func() { s.beat(term) })
}

// append adds a command to the leader's log and sends it out.
func (s *server) append(c command) {
	s.log = append(s.log, entry{s.term, c})
	s.match[s.index] = len(s.log)
	s.replicate()
	s.advance()
}

// replicate sends each follower what it lacks, with the number of this round.
func (s *server) replicate() {
	s.round++
	term, round := s.term, s.round
	for _, o := range s.w.servers {
		if o == s {
			continue
		}
		from := s.match[o.index]
		sent, commit := s.log[from:len(s.log):len(s.log)], s.commit
		prev := s.log[:from:from]
		s.tell(o, func() { o.take(s, term, round, prev, sent, commit) })
	}
}

// take is AppendEntries; prev is the whole log before what was sent, so that a
// follower that lacks some of it needs no second message.
func (s *server) take(from *server, term, round uint64, prev, sent []entry, commit int) {
	s.observe(term)
	if term < s.term {
		return
	}
	s.leader = from.index
	s.heard()
	all := len(prev) + len(sent)
	at := func(i int) entry {
		if i < len(prev) {
			return prev[i]
		}
		return sent[i-len(prev)]
	}
	i := min(len(prev), len(s.log))
	for i > s.commit && s.log[i-1].term != at(i-1).term {
		i--
	}
	for ; i < all; i++ {
		e := at(i)
		e.cmd.done = nil
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
	s.tell(from, func() {
		if !from.leads || from.term != term {
			return
		}
		from.contact[s.index] = from.w.now
		from.match[s.index] = max(from.match[s.index], all)
		from.acked[s.index] = max(from.acked[s.index], round)
		from.advance()
		from.checked()
	})
}

// advance commits what a majority holds, of this term.
func (s *server) advance() {
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
func (s *server) apply() {
	for s.applied < s.commit {
		e := &s.log[s.applied]
		s.applied++
		err := s.carryOut(e.cmd, s.applied)
		if done := e.cmd.done; done != nil {
			e.cmd.done = nil
			done(err)
		}
	}
}

// carryOut is the FSM.
func (s *server) carryOut(c command, index int) error {
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
	case c.evict != "":
		err = s.ledger.ApplyEvict(c.evict)
	}
	return err
}

// verify calls done with nil if this server led in its term at some moment
// after the call.
func (s *server) verify(done func(error)) {
	if !s.leads {
		done(errNotLeader)
		return
	}
	if s.w.mutant.noVerify || len(s.w.servers) == 1 {
		done(nil)
		return
	}
	s.checks = append(s.checks, check{s.round + 1, done})
	s.replicate()
}

func (s *server) checked() {
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

// stop is SIGKILL; start is the same data dir again.
func (s *server) stop() {
	s.up = false
	s.life++
	s.w.note("server %d is killed", s.index)
	s.leads, s.checks, s.leader = false, nil, -1
	for i := range s.log {
		s.log[i].cmd.done = nil
	}
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
	s.commit = s.applied // what it knew; the rest it learns again
	s.w.note("server %d is started", s.index)
	s.await()
}
