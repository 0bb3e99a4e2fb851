package many

import (
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// Addresses are as long as real ones.
const (
	address      = "http://10.0.123.234:29500"
	storeAddress = "10.0.123.234:29501"
)

// answer is a quorum as it arrives, and how long its message is.
func (w *world) answer(number uint64, q quorum.Quorum) (quorum.Quorum, int) {
	p, size := sent(w, &skerrypb.Answer{Number: number, Quorum: wire.QuorumToProto(q)})
	got, err := wire.AnswerFromProto(p)
	if err != nil {
		w.fail("wire: %v", err)
	}
	return got, size
}

// takes is how long a replica takes for an answer.
func (w *world) takes(q *quorum.Quorum, size int) time.Duration {
	d := kib(size, w.c.Take)
	if q.View != nil {
		d += time.Duration(q.View.WorldSize) * w.c.Name
	}
	return d
}

// tell carries a message of the replica to the leader: in order, or never.
func (r *replica) tell(bytes int, handle func(l *lighthouse, now time.Time)) {
	w, l, session := r.w, r.w.lighthouse, r.session
	if l == nil || r.opened == 0 || r.opened != session {
		return
	}
	r.up = max(r.up, w.now+int64(w.delay()+w.c.wire(bytes)))
	w.at(r.up, func() {
		if l.over || r.session != session {
			return
		}
		l.receive(bytes, func(now time.Time) { handle(l, now) })
	})
}

// connect opens a session with the leader, after a moment; what waits for an answer is said again.
func (r *replica) connect() {
	w, l := r.w, r.w.lighthouse
	r.session++
	session := r.session
	w.after(w.between(5*time.Millisecond, beatEvery), func() {
		if !r.alive || l.over || r.session != session {
			return
		}
		hello, size := sent(w, wire.HelloToProto(wire.Hello{
			Job: "j", Address: address, StoreAddress: storeAddress, GroupWorldSize: 1,
			Hello: quorum.Hello{ReplicaID: r.id, Client: quorum.KindSkerry, Position: r.rank.Position(), Last: r.rank.LastAnswer()},
		}))
		h, err := wire.HelloFromProto(hello)
		if err != nil {
			w.fail("wire: %v", err)
			return
		}
		r.opened = session
		r.tell(size, func(l *lighthouse, now time.Time) { l.open(r, now, h.Hello) })
		if r.out != nil {
			r.sendJoin()
		}
		r.beat(session)
	})
}

// open is the shell's side of a hello.
func (l *lighthouse) open(r *replica, now time.Time, h quorum.Hello) {
	if err := l.m.Open(now, h); err != nil {
		l.w.fail("%s is refused a session: %v", r.id, err)
		return
	}
	l.sessions[r.id] = r
	l.told()
	l.book.Opened(l.w.since(), string(r.id), h.Position)
}

// beat says how far the replica is, again and again.
func (r *replica) beat(session int) {
	w, l := r.w, r.w.lighthouse
	if !r.alive || l == nil || r.session != session {
		return
	}
	b := quorum.Beat{
		Position: r.rank.Position(), QuorumID: r.rank.QuorumID(), Ballots: r.rank.Ballots(),
		Progress: r.moves, Phase: quorum.PhaseTraining, Waits: r.asking || r.phase.waits(),
	}
	w.after(w.delay(), func() { l.beat(r, b) })
	w.after(l.rules.BeatInterval(), func() { r.beat(session) })
}

// sendJoin tells the leader what the replica wants.
func (r *replica) sendJoin() {
	w := r.w
	p, size := sent(w, wire.JoinToProto(*r.out))
	j, err := wire.JoinFromProto(p)
	if err != nil {
		w.fail("wire: %v", err)
		return
	}
	w.res.joins++
	r.tell(size, func(l *lighthouse, now time.Time) {
		for _, a := range j.Accusations {
			l.accused(a)
		}
		if err := l.m.Join(now, j); err != nil {
			w.fail("%s: its join is refused: %v", r.id, err)
			return
		}
		l.told()
		l.book.Joined(w.since(), &j)
	})
}

// withdraw takes the join back.
func (r *replica) withdraw() {
	number := r.out.Number
	r.out = nil
	r.tell(0, func(l *lighthouse, now time.Time) {
		l.m.Withdraw(now, r.id, number)
		l.book.Withdrew(string(r.id), number)
	})
}

// accuse tells the leader whose link broke.
func (r *replica) accuse(a quorum.Accusation) {
	if !r.rank.Accuse(a) {
		return
	}
	p, size := sent(r.w, wire.AccusationToProto(a))
	came, err := wire.AccusationFromProto(p)
	if err != nil {
		r.w.fail("wire: %v", err)
		return
	}
	r.w.res.accusations++
	r.tell(size, func(l *lighthouse, now time.Time) { l.accuse(now, came) })
}

// notice takes what the leader pushes.
func (r *replica) notice(n quorum.Notice) {
	switch n.Kind {
	case quorum.NoticeProbe:
		r.tell(8, func(l *lighthouse, now time.Time) {
			l.m.Reply(now, r.id, n.Number)
			l.told()
			l.book.Heard(r.w.since(), string(r.id))
		})
	case quorum.NoticeRefused, quorum.NoticeEvict:
		r.w.fail("%s is told %v", r.id, n)
	default:
		if r.rank.Hear(n) == quorum.HeardFall {
			r.fall(n.QuorumID)
		}
	}
}
