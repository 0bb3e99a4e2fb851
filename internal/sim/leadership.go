package sim

import (
	"errors"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/raft"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
)

// errTimeout is what a command can end with; it may still take effect.
var errTimeout = errors.New("the reply was lost")

// epochStart is where every process's clock begins.
var epochStart = time.Unix(1_700_000_000, 0)

// leadership is the time during which a server leads: a machine rebuilt from the
// ledger, and the sessions of those who found this leader. It is the
// lighthouse's shell, input by input: what comes while a command is being written
// is taken, nothing is decided, and nobody is told before it is written.
type leadership struct {
	s        *server
	w        *world
	term     uint64
	began    int64
	m        *quorum.Machine
	sessions map[string]*session
	joins    map[quorum.ReplicaID]quorum.Join // the newest of each, for mutants that form by themselves
	wishes   []command                        // of operators, that wait for what is being written
	busy     bool                             // a command or a check of leadership is under way
	over     bool
	turns    shell.Turns
	forms    int // in this turn
	timer    int // only the newest wake-up counts
	book     *checker.Book
}

func (s *server) clock() time.Time { return epochStart.Add(time.Duration(s.w.now) + s.skew) }

// Lead begins a leadership.
func (s *server) Lead() {
	s.Dismiss()
	r := &leadership{s: s, w: s.w, term: s.Term(), began: s.w.now, sessions: map[string]*session{}, joins: map[quorum.ReplicaID]quorum.Join{}}
	s.leadership = r
	s.w.note("server %d takes over in term %d", s.index, s.Term())
	r.restart()
	r.settle()
}

// restart makes the machine anew from the ledger.
func (r *leadership) restart() {
	l := r.s.ledger.Clone()
	if f := r.w.mutant.onRestart; f != nil {
		f(&l)
	}
	now := r.s.clock()
	r.turns = shell.NewTurns(now)
	r.began = r.w.now
	born := now
	if r.w.mutant.presumesNobody {
		born = now.Add(-time.Hour) // silent for longer than any doubt of its own sight lasts
	}
	r.m = quorum.New(born, r.w.o.config(), l)
	rules := r.w.o.config()
	if l.Config != nil {
		rules = *l.Config
	}
	r.book = r.w.check.NewBook(now.Sub(epochStart), rules, l)
}

// end dismisses everybody; they come again, here or elsewhere.
func (r *leadership) end() {
	if r.over {
		return
	}
	r.dismiss()
	r.vanish()
}

// vanish is end without a word.
func (r *leadership) vanish() {
	r.over = true
	if r.s.leadership == r {
		r.s.leadership = nil
	}
	for _, m := range r.w.members {
		if x := m.x; x != nil && x.r == r {
			x.lose(true)
		}
	}
}

func (r *leadership) dismiss() {
	for _, m := range r.w.members {
		if x := r.sessions[m.id]; x != nil {
			x.lose(true)
		}
	}
	clear(r.sessions)
}

// take gives an input to the machine.
func (r *leadership) take(input func(now time.Time)) {
	if r.over {
		return
	}
	input(r.now())
	if r.busy {
		r.push()
		r.sleep() // it is woken, and may find that it was stopped, while it writes too
		return
	}
	r.settle()
}

// now is the time for the next input; a process that was descheduled doubts
// itself.
func (r *leadership) now() time.Time {
	now := r.s.clock()
	if deaf := r.turns.Begin(now); deaf > 0 {
		r.m.Doubt(now, deaf)
		r.book.Doubted(now.Sub(epochStart), deaf)
	}
	return now
}

// settle carries out what the rules say.
func (r *leadership) settle() {
	r.forms = 0
	r.step()
}

// step decides once; a decision that has to be written ends in another step.
func (r *leadership) step() {
	if r.over || r.busy || r.w.err != nil {
		return
	}
	now := r.s.clock()
	r.m.Advance(now)
	r.push()
	d := r.m.Decide(now)
	if !d.Ready && r.override(d) {
		return
	}
	if d.Ready && r.forms < maxForms {
		r.forms++
		r.form(now, d)
		return
	}
	r.book.TurnEnded(now.Sub(epochStart), d.Reason.String())
	r.sleep()
}

// maxForms bounds the quorums of one turn, as the lighthouse does.
const maxForms = 8

// sleepBusy is sleep while something is being written, if it still is.
func (r *leadership) sleepBusy() {
	if r.busy && !r.over {
		r.sleep()
	}
}

func (r *leadership) sleep() {
	wake := r.m.Wake(r.s.clock())
	r.push()
	r.turns.Due = wake
	r.timer++
	if wake.IsZero() {
		return
	}
	timer := r.timer
	r.s.After(wake.Sub(r.s.clock()), func() {
		if !r.over && r.timer == timer {
			r.take(r.m.Advance)
		}
	})
}

// form makes a decision so: written first, or, when nothing changed, confirmed
// by a check of leadership begun after the decision.
func (r *leadership) form(now time.Time, d quorum.Decision) {
	r.busy = true
	decided := r.w.now
	floor := r.w.check.Floor()
	finish := func(err error) { r.formed(d, err, decided, floor) }
	r.book.Decided(now.Sub(epochStart), d.Changed, &d.Quorum)
	if d.Changed {
		r.w.tried(&d.Quorum)
		f := d.Command(r.term, quorum.Token{1}, now.UnixMilli()+r.s.wall.Milliseconds())
		r.write(command{formed: &f}, finish)
		r.sleepBusy()
		return
	}
	defer r.sleepBusy()
	r.s.verify(func(err error) {
		if err == nil && !r.w.mutant.noVerify {
			err = r.s.ledger.Repeats(d.Quorum)
		}
		finish(err)
	})
}

// write replicates a command. Its reply may be lost: then nobody here knows what
// became of it.
func (r *leadership) write(c command, done func(error)) {
	if !r.s.Leads() || r.s.Term() != r.term {
		done(raft.ErrNotLeader)
		return
	}
	called := false
	once := func(err error) {
		if !called {
			called = true
			done(err)
		}
	}
	if r.w.loseReply > 0 {
		r.w.loseReply--
		r.w.note("the reply to a command of server %d is lost", r.s.index)
		r.s.Append(c, nil)
		r.s.After(time.Millisecond, func() { once(errTimeout) })
		return
	}
	r.s.Append(c, once)
}

// formed goes on after the write.
func (r *leadership) formed(d quorum.Decision, err error, decided int64, floor checker.Answer) {
	r.busy = false
	if r.over || r.w.err != nil {
		return
	}
	if err != nil {
		r.rebuild(err)
		return
	}
	now := r.now()
	last := r.m.Last()
	q := r.m.Form(now, d, quorum.Token{1}, 1)
	if f := r.w.mutant.onAnswer; f != nil {
		f(last, &q)
	}
	if r.w.tracing {
		r.w.note("server %d formed %d.%d %v settled %v (%v)", r.s.index, q.ID, q.Round, names(&q), q.Settlement, d.Reason)
	}
	r.release(&q, decided, floor, d.Changed, d.Answers)
	r.next()
}

// release tells a quorum to those whose joins it answers.
func (r *leadership) release(q *quorum.Quorum, decided int64, floor checker.Answer, changed bool, answers []quorum.Answered) {
	r.w.formed++
	r.w.check.Released(r.book, r.s.clock().Sub(epochStart), checker.Release{
		Decided: decided, At: r.w.now, Floor: floor, Changed: changed, Server: r.s.index, Quorum: q, Answers: answers,
	})
	for _, a := range answers {
		if x := r.sessions[string(a.ReplicaID)]; x != nil {
			x.push(func(m *member) { m.answered(q, a.Number) })
		}
	}
}

// next carries out what waited while something was written, and settles.
func (r *leadership) next() {
	if len(r.wishes) > 0 {
		c := r.wishes[0]
		r.wishes = r.wishes[1:]
		r.change(c)
		if r.busy || r.over {
			return
		}
	}
	r.step()
}

// rebuild starts again from the ledger: what became of the command is unknown
// here.
func (r *leadership) rebuild(err error) {
	r.w.note("server %d rebuilds: %v", r.s.index, err)
	r.push()
	r.dismiss()
	if err == raft.ErrNotLeader {
		r.vanish()
		return
	}
	r.restart()
	r.forms = 0
	r.next()
}

func names(q *quorum.Quorum) []string {
	out := make([]string, len(q.Members))
	for i, m := range q.Members {
		out[i] = string(m.ReplicaID)
	}
	return out
}

// push sends the machine's notices, and tells the checkers what it said.
func (r *leadership) push() {
	for _, n := range r.m.Notices() {
		for _, id := range n.To {
			if x := r.sessions[string(id)]; x != nil {
				x.push(func(m *member) { m.notice(n) })
			}
		}
	}
	r.told()
}

// told gives the checkers what the machine says happened, before what it was
// told is in the book.
func (r *leadership) told() {
	now := r.s.clock().Sub(epochStart)
	for _, e := range r.m.Events() {
		r.book.Happened(now, e)
		if r.w.tracing && e.Kind != quorum.EventJoined && e.Kind != quorum.EventFormed {
			r.w.note("server %d: %v", r.s.index, e)
		}
	}
}

// change is an operator's wish, if the server leads when it comes to hear it.
func (s *server) change(c command) {
	s.when(func() {
		if s.leadership != nil {
			s.leadership.change(c)
		}
	})
}

// change is an operator's wish: the rules first, then the ledger.
func (r *leadership) change(c command) {
	if r.busy {
		r.wishes = append(r.wishes, c)
		return
	}
	now := r.now()
	var err error
	switch {
	case c.config != nil:
		err = r.m.Configure(now, *c.config)
	case c.drain != "":
		err = r.m.Drain(now, c.drain, "asked to")
	case c.undo != "":
		err = r.m.Undrain(now, c.undo, "asked to", nil) // a change waits for what is written
	case c.evict != "":
		err = r.m.Evict(now, c.evict, "asked to")
	}
	r.push()
	if err != nil {
		r.settle()
		return
	}
	r.busy = true
	r.write(c, func(err error) {
		r.busy = false
		switch {
		case r.over:
		case err != nil:
			r.rebuild(err)
		default:
			r.now()
			if c.config != nil {
				r.book.Configured(*c.config)
			}
			r.next()
		}
	})
	r.sleepBusy()
}
