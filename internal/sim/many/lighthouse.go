package many

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
)

// Times of the lighthouse's shell.
const (
	beatEvery = 100 * time.Millisecond // of a session, while there are few
	quietTurn = 10 * time.Millisecond  // beats are looked at together
	maxForms  = 8                      // quorums of one turn
)

// lighthouse is the server that leads: a machine made from the ledger, and the shell's orders around
// it. Messages are decoded one after the other (cpu), and the job's goroutine decides upon all that
// have come (turn).
type lighthouse struct {
	w        *world
	m        *quorum.Machine
	rules    shell.JobRules
	book     *checker.Book
	sessions map[quorum.ReplicaID]*replica
	inbox    []func(now time.Time)
	cpu      int64 // until when what came is decoded, and what goes is encoded
	job      int64 // until when the job's goroutine decides
	nic      int64 // until when the interface sends
	turning  bool  // a turn is due
	looking  bool  // and one for beats
	writing  bool
	over     bool
	forms    int
	timer    int // only the newest wake-up counts
}

// lead begins a leadership.
func (w *world) lead() {
	config := quorum.DefaultConfig()
	config.MinReplicas = w.o.Replicas/2 + 1
	rules := shell.NewJobRules(shell.ServerRules{Rules: config, BeatInterval: beatEvery}, quorum.KindSkerry, nil)
	l := &lighthouse{w: w, rules: rules, sessions: map[quorum.ReplicaID]*replica{}}
	l.m = quorum.New(w.clock(), rules.InForce(), w.ledger.Clone())
	l.m.Beats(rules.BeatInterval())
	l.book = w.check.NewBook(w.since(), rules.InForce(), w.ledger.Clone())
	w.lighthouse = l
	for _, r := range w.all {
		r.connect()
	}
	l.turnAt(0)
}

// works adds to what the server's processors have to do.
func (l *lighthouse) works(d time.Duration) {
	l.w.res.now.work += d
	l.busy(d)
}

// busy has its processors do something.
func (l *lighthouse) busy(d time.Duration) {
	l.cpu = max(l.cpu, l.w.now) + int64(d)/int64(l.w.c.cores)
}

// receive takes a message that has arrived, and hands it to the job's goroutine when it is decoded.
func (l *lighthouse) receive(bytes int, handle func(now time.Time)) {
	w := l.w
	w.res.came(bytes)
	l.works(w.c.Message + kib(bytes, w.c.In))
	w.at(l.cpu, func() {
		l.inbox = append(l.inbox, handle)
		l.turnAt(0)
	})
}

// turnAt has a turn come, at once if the goroutine is free.
func (l *lighthouse) turnAt(in time.Duration) {
	due := &l.turning
	if in > 0 {
		due = &l.looking
	}
	if *due || l.over {
		return
	}
	*due = true
	l.w.at(max(l.w.now+int64(in), l.job), func() {
		*due = false
		l.turn()
	})
}

// turn takes what has come, and carries out what the rules say.
func (l *lighthouse) turn() {
	if l.over {
		return
	}
	all := l.inbox
	l.inbox = nil
	for _, handle := range all {
		handle(l.w.clock())
	}
	l.forms = 0
	l.settle()
}

// settle decides once; a decision that has to be written ends in another one.
func (l *lighthouse) settle() {
	w := l.w
	if l.over || w.err != nil {
		return
	}
	now := w.clock()
	l.retime(now)
	l.m.Advance(now)
	l.push()
	if l.writing {
		l.sleep()
		return
	}
	cost := time.Duration(len(w.all)) * w.c.Decide
	l.works(cost)
	l.job = max(l.job, w.now) + int64(cost)
	d := l.m.Decide(now)
	if d.Ready && l.forms < maxForms {
		l.forms++
		l.form(d)
		return
	}
	l.book.TurnEnded(w.since(), d.Reason.String())
	l.sleep()
}

// retime stretches the times of so many sessions.
func (l *lighthouse) retime(now time.Time) {
	if !l.rules.Retime(now, len(l.sessions), l.m.Config()) {
		return
	}
	if err := l.m.Configure(now, l.rules.InForce()); err != nil {
		l.w.fail("rules: %v", err)
	}
	l.book.Configured(l.rules.InForce())
	l.m.Beats(l.rules.BeatInterval())
}

// sleep has the machine woken in time.
func (l *lighthouse) sleep() {
	wake := l.m.Wake(l.w.clock())
	l.timer++
	if wake.IsZero() {
		return
	}
	timer := l.timer
	l.w.at(wake.Sub(epoch).Nanoseconds(), func() {
		if l.timer == timer {
			l.turnAt(0)
		}
	})
}

// form makes a decision so: it is written, and told.
func (l *lighthouse) form(d quorum.Decision) {
	w := l.w
	l.writing = true
	decided, floor := w.now, w.check.Floor()
	l.book.Decided(w.since(), d.Changed, &d.Quorum)
	token, ms := quorum.Token{1}, w.clock().UnixMilli()
	entry := d.Entry(1, token, ms)
	w.after(w.c.Write, func() {
		if l.over {
			return // its leader died: none was told
		}
		l.writing = false
		if d.Changed {
			if err := w.ledger.ApplyFormed(entry); err != nil {
				w.fail("ledger: %v", err)
				return
			}
			w.check.Written(w.written, d.Command(1, token, ms))
			w.written++
		}
		q := l.m.Form(w.clock(), d, token, ms)
		w.check.Released(l.book, w.since(), checker.Release{
			Decided: decided, At: w.now, Floor: floor, Changed: d.Changed, Quorum: &q, Answers: d.Answers,
		})
		if d.Changed {
			w.formed(&q)
		}
		l.answer(&q, d.Answers)
		l.settle()
	})
}

// answer tells a quorum to those whose joins it answers: the list, encoded once, or to each its view.
func (l *lighthouse) answer(q *quorum.Quorum, to []quorum.Answered) {
	w := l.w
	views := quorum.NewViewer(q)
	var shared *quorum.Quorum
	size := 0
	for _, a := range to {
		r := l.sessions[a.ReplicaID]
		if r == nil {
			continue
		}
		came := shared
		if came == nil {
			part := *q
			if len(q.Members) > quorum.MaxListed {
				part = views.For(a.ReplicaID)
			}
			var got quorum.Quorum
			got, size = w.answer(a.Number, part)
			came = &got
			if got.View == nil {
				shared = came
			}
		}
		mine := *came
		l.send(r, size, func() {
			w.after(w.takes(&mine, size), func() {
				if r.alive {
					r.answered(a.Number, &mine)
				}
			})
		})
	}
}

// send carries a message to a replica; the interface sends one after the other.
func (l *lighthouse) send(r *replica, bytes int, deliver func()) {
	w, session := l.w, r.session
	w.res.went(bytes)
	l.works(w.c.Message + kib(bytes, w.c.Out))
	l.nic = max(l.nic, l.cpu) + int64(w.c.wire(bytes))
	r.down = max(r.down, l.nic+int64(w.delay()))
	w.at(r.down, func() {
		if r.alive && r.session == session {
			r.rank.HearAgain()
			deliver()
		}
	})
}

// push sends the machine's notices, and tells the checkers what it said.
func (l *lighthouse) push() {
	for _, n := range l.m.Notices() {
		size := proto.Size(wire.NoticeToProto(n))
		for _, id := range n.To {
			if r := l.sessions[id]; r != nil {
				l.send(r, size, func() { r.notice(n) })
			}
		}
	}
	l.told()
}

// told gives the checkers what the machine says happened.
func (l *lighthouse) told() {
	for _, e := range l.m.Events() {
		l.book.Happened(l.w.since(), e)
	}
}

// broken notes that a replica's stream ended.
func (l *lighthouse) broken(r *replica) {
	l.receive(0, func(now time.Time) {
		if l.sessions[r.id] != r {
			return
		}
		delete(l.sessions, r.id)
		l.book.Broken(l.w.since(), string(r.id), false)
		l.m.Broken(now, r.id, "EOF", false)
	})
}

// die ends a leadership without a word; another begins.
func (l *lighthouse) die() {
	w := l.w
	l.over = true
	w.lighthouse = nil
	for _, r := range w.all {
		r.session++
	}
	w.after(w.between(w.c.Election/2, w.c.Election), func() {
		w.res.leaders++
		w.lead()
	})
}

// beat takes in that a replica lives.
func (l *lighthouse) beat(r *replica, b quorum.Beat) {
	w := l.w
	if l.over || l.sessions[r.id] != r {
		return
	}
	w.res.beats++
	w.res.beating += w.c.Beat
	l.busy(w.c.Beat)
	if l.m.Beat(w.clock(), r.id, b) == nil {
		l.told()
		l.book.Beat(w.since(), string(r.id), b.Position)
	}
	l.turnAt(quietTurn)
}

// accuse takes a word against a member.
func (l *lighthouse) accuse(now time.Time, a quorum.Accusation) {
	l.accused(a)
	_ = l.m.Accuse(now, a) // what does not fit any more is old news
}

// accused tells the book, which knows replicas by their ids.
func (l *lighthouse) accused(a quorum.Accusation) {
	l.book.Accused(l.w.since(), string(a.By), string(l.w.called[a.Against]), a.QuorumID, a.Unreachable)
}
