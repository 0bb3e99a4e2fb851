package sim

import (
	"fmt"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind int

// The kinds of fault. Those from FaultGiveUp on wait for their occasion at one
// replica.
const (
	FaultCrash      FaultKind = iota // a replica dies; its peers and the lighthouse see it at once
	FaultSilent                      // it dies and nobody is told
	FaultPause                       // it is descheduled for a while, and goes on
	FaultSlow                        // it and its links are slow for a while
	FaultSession                     // its session breaks
	FaultCutOff                      // it does not reach some servers for a while
	FaultLink                        // a link between two replicas is cut for a while
	FaultOneWay                      // in one direction
	FaultLong                        // in one or both, for long
	FaultStore                       // likewise the one to the member whose store its quorum uses
	FaultJump                        // its clock jumps ahead
	FaultLeader                      // the leading server is killed, and started again
	FaultServer                      // any server is
	FaultStop                        // the leading server is stopped (SIGSTOP) for a while
	FaultPartition                   // the leading server is cut off from the others, not from replicas
	FaultSplit                       // one server is cut off from others, in one direction
	FaultServerJump                  // the leading server's clocks jump
	FaultDark                        // no replica reaches a server for a while: a switch in front of them starts again
	FaultReply                       // the reply to the next command is lost
	FaultRepeat                      // messages to the lighthouse come twice
	FaultDrain                       // an operator drains a replica, and may take that back soon
	FaultEvict                       // or evicts it
	FaultConfig                      // or changes the rules
	FaultGiveUp                      // a trainer does not wait for its settlement
	FaultOdd                         // a reduction is wrong
	FaultCheck                       // a local check fails before the ballot
	FaultHeal                        // a heal fails
	FaultVote                        // a rank's vote does not reach its replica's tally
	FaultNo                          // a vote that is not a yes does not
	FaultRefuse                      // a rank's backend refuses its ballot, and gives no list of them
	FaultDeaf                        // it carries the ballot, and loses what comes
	FaultOp                          // a collective fails before it is issued
	FaultCtx                         // a trainer's ctx ends in one of its waits
	FaultForget                      // a trainer forgets its ShouldCommit
	FaultLag                         // a rank's trainer does nothing for a while
	FaultFlip                        // a bit of a state flips; drawn apart from the others
	FaultShrink                      // a StartQuorum asks that no newcomer is let in; likewise
	faultKinds
)

// String names the kind.
func (k FaultKind) String() string {
	return [...]string{
		"crash", "silent crash", "pause", "slow", "session cut", "cut off", "link cut", "link cut one way",
		"link cut for long", "store cut off", "clock jump",
		"leader killed", "server killed", "leader stopped", "leader partitioned", "servers split", "server clock jump",
		"servers out of reach",
		"reply lost", "messages repeated", "drain", "evict", "config change", "give up", "odd reduction", "check fails",
		"heal fails", "vote late", "refusal late", "ballot refused", "ballots unheard", "collective fails",
		"ctx ends", "step forgotten", "trainer lags", "bit flips", "shrink only",
	}[k]
}

// Fault is one thing that goes wrong. A and B choose who; what they mean depends
// on who is there at that time.
type Fault struct {
	At    time.Duration
	Kind  FaultKind
	A, B  int
	Lasts time.Duration
}

// String is one line of a fault list.
func (f Fault) String() string {
	return fmt.Sprintf("%v %v (%d, %d) for %v", f.At, f.Kind, f.A, f.B, f.Lasts)
}

// strike makes a fault happen.
func (w *world) strike(f Fault) {
	w.struck++
	w.note("fault: %v", f)
	switch {
	case f.Kind >= FaultGiveUp:
		if m := w.pick(f.A); m != nil {
			m.arm(f)
		}
	case f.Kind >= FaultReply:
		w.strikeOperator(f)
	case f.Kind >= FaultLeader:
		w.strikeServer(f)
	default:
		if m := w.pick(f.A); m != nil {
			w.strikeMember(m, f)
		}
	}
}

// arm has a fault wait for its occasion at one rank of a replica, or at all.
func (m *member) arm(f Fault) {
	for g, r := range m.ranks {
		if f.B%3 != 0 && f.B%len(m.ranks) != g {
			continue
		}
		r.armed[f.Kind] = true
		if f.Kind == FaultCtx {
			waits := [...]phase{starting, queueing, reducing, closing, mending, balloting, voting, settling}
			r.ends = waits[f.B/3%len(waits)]
		}
	}
}

func (w *world) strikeMember(m *member, f Fault) {
	until := w.now + int64(f.Lasts)
	switch f.Kind {
	case FaultCrash, FaultSilent:
		m.die(f.Kind == FaultCrash)
		w.reborn(m, f.Lasts)
	case FaultPause:
		m.asleep = max(m.asleep, until)
		if f.Lasts > linkSilence {
			w.peersNotice(m, linkSilence)
		}
	case FaultSlow:
		m.slow = max(m.slow, until)
	case FaultSession:
		if x := m.x; x != nil {
			x.lose(false)
		}
	case FaultCutOff:
		for i := range w.servers {
			if f.B&(1<<i) == 0 || len(w.servers) == 1 {
				m.cutOff[i] = max(m.cutOff[i], until)
			}
		}
		if x := m.x; x != nil && x.open && m.cutOff[x.via.index] > w.now+int64(keepAlive) {
			w.after(keepAlive, func() { x.lose(false) })
		}
	case FaultLink, FaultOneWay:
		if o := w.pick(f.B); o != nil && o != m {
			w.cutLink(m, o, f.Lasts, f.Kind == FaultOneWay)
		}
	case FaultLong, FaultStore:
		o := w.pick(f.B)
		if f.Kind == FaultStore && m.in() != nil {
			o = w.byID[m.first().plan.Primary]
		}
		if o != nil && o != m && o.up {
			w.cutLink(m, o, f.Lasts*longer, f.B%2 == 0)
		}
	case FaultJump:
		w.queue.Hurry(func(e event) bool { return e.timer == m }, w.now, int64(f.Lasts))
	}
	m.disturbed = max(m.disturbed, until)
}

func (w *world) strikeServer(f Fault) {
	s := w.leading()
	if s == nil || f.Kind == FaultServer {
		s = w.servers[f.A%len(w.servers)]
	}
	until := w.now + int64(f.Lasts)
	for _, o := range w.servers {
		o.disturbed = max(o.disturbed, until)
	}
	switch f.Kind {
	case FaultLeader, FaultServer:
		if s.up {
			s.stop()
			w.after(f.Lasts, s.start)
		}
	case FaultStop:
		s.asleep = max(s.asleep, until)
		w.loseStopped(s)
	case FaultPartition:
		for i := range w.servers {
			w.cutServers[s.index][i], w.cutServers[i][s.index] = until, until
		}
	case FaultSplit:
		o := f.B % len(w.servers)
		w.cutServers[s.index][o] = until
	case FaultDark:
		for _, m := range w.members {
			w.cutOffAll(m, f.B%2 == 0, until)
		}
	case FaultServerJump:
		s.wall += time.Duration(f.B-32) * time.Minute
		s.skew += f.Lasts
	}
}

// cutOffAll keeps a member from all servers for a while; resets says that its
// stream breaks at once, not when nothing has come for a while.
func (w *world) cutOffAll(m *member, resets bool, until int64) {
	for i := range m.cutOff {
		m.cutOff[i] = max(m.cutOff[i], until)
	}
	x := m.x
	switch {
	case x == nil || !x.open:
	case resets:
		w.after(w.between(0, keepAlive/10), func() { x.lose(false) })
	case until > w.now+int64(keepAlive):
		w.after(keepAlive, func() { x.lose(false) })
	}
}

// longer is by how much longer a cut is that lasts for long.
const longer = 30

// loseStopped lets the members of a stopped server go, some sooner than others.
func (w *world) loseStopped(s *server) {
	for _, m := range w.members {
		x := m.x
		if x == nil || !x.open || x.via != s && x.r.s != s {
			continue
		}
		w.after(w.between(keepAlive/2, 3*keepAlive), func() {
			if s.asleep > w.now {
				x.lose(false)
			}
		})
	}
}

func (w *world) strikeOperator(f Fault) {
	s := w.leading()
	m := w.pick(f.A)
	switch {
	case f.Kind == FaultReply:
		w.loseReply++
	case f.Kind == FaultRepeat:
		w.repeats += 10
	case s == nil || s.leadership == nil || m == nil:
	case f.Kind == FaultDrain:
		id := m.rid()
		s.change(command{drain: id})
		if f.B%2 == 1 { // the operator meant another one
			w.after(f.Lasts%undoWithin, func() {
				if s := w.leading(); s != nil {
					s.change(command{undo: id})
				}
			})
		}
	case f.Kind == FaultEvict:
		s.change(command{evict: m.rid()})
	case f.Kind == FaultConfig:
		c := w.o.config()
		c.MinReplicas = 1 + f.B%w.o.Replicas
		c.JoinTimeout = joinTimeout/2 + f.Lasts
		s.change(command{config: &c})
	}
}

// pick finds a replica that is up.
func (w *world) pick(n int) *member {
	var up []*member
	for _, m := range w.members {
		if m.up {
			up = append(up, m)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[n%len(up)]
}

// leading is the server that leads, as it believes itself; of two the newer.
func (w *world) leading() *server {
	var l *server
	for _, s := range w.servers {
		if s.up && s.Leads() && (l == nil || s.Term() > l.Term()) {
			l = s
		}
	}
	return l
}

// reborn starts a dead member's replica again, as another incarnation.
func (w *world) reborn(m *member, after time.Duration) {
	w.after(after, func() {
		if w.lives[m.name] == m.life {
			w.birth(m.name, m.life+1, w.between(0, 100*time.Millisecond))
		}
	})
}

// settleDown ends the faults: cuts heal, whoever is stopped goes on, whoever is
// dead comes back soon, and the rules are those of the beginning.
func (w *world) settleDown() {
	w.calm = true
	w.note("faults are over")
	w.loseReply, w.repeats = 0, 0
	for _, s := range w.servers {
		s.asleep = min(s.asleep, w.now)
		s.start()
		for i := range w.servers {
			w.cutServers[s.index][i] = 0
		}
	}
	for _, m := range w.members {
		m.asleep, m.slow = min(m.asleep, w.now), min(m.slow, w.now)
		m.recover()
		for i := range m.cutOff {
			m.cutOff[i] = 0
		}
		for _, l := range m.out {
			if l != nil {
				l.cut = 0
			}
		}
	}
	w.restore()
}

// restore gives the job its first rules again, until it has them.
func (w *world) restore() {
	want := w.o.config()
	s := w.leading()
	if s != nil && s.leadership != nil {
		if s.ledger.Config == nil || *s.ledger.Config == want {
			if s.leadership.book.Config() == want {
				return
			}
		}
		s.change(command{config: &want})
	}
	w.after(200*time.Millisecond, w.restore)
}
