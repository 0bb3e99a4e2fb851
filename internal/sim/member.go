package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// member is one incarnation of a replica: its manager, its ranks, its trainer.
type member struct {
	w      *world
	name   string
	life   int
	id     string
	up     bool
	asleep time.Time // paused until then
	x      *session

	pos   quorum.Position
	bytes uint64
	last  []quorum.Digest // of the last committed step
	fact  quorum.Fact
	pend  uint64 // bytes of the prepared step
	join  *quorum.Join
	next  uint64

	in       *quorum.Quorum // newest answer taken
	plan     quorum.Assignment
	group    int  // rises whenever the group is configured or breaks; old timers see it
	ready    bool // configured, and healed or found unable to
	unhealed bool
	stands   bool // in stands, as far as it knows
	ask      bool // asks, or is about to, before its next step
	wants    bool // was told that a change is wanted
	again    bool // a change is wanted, once the lighthouse was heard again
	hellos   map[string]int64
	steps    map[stepKey]*attempt
	ballots  uint64
}

// birth adds an incarnation that connects after a while.
func (w *world) birth(name string, life int, after time.Duration) {
	m := &member{
		w: w, name: name, life: life, id: fmt.Sprintf("%s%s%d", name, lateReplica, life), up: true, next: 1,
		hellos: map[string]int64{}, steps: map[stepKey]*attempt{},
	}
	w.members = append(w.members, m)
	w.note("%s is born", m.id)
	w.after(after, func() { m.when(m.connect) })
}

func (m *member) rid() quorum.ReplicaID { return quorum.ReplicaID(m.id) }

func (w *world) member(id quorum.ReplicaID) *member {
	for _, m := range w.members {
		if m.id == string(id) {
			return m
		}
	}
	return nil
}

// when does something at the member: never if it is dead, later if it is
// paused.
func (m *member) when(do func()) {
	switch {
	case !m.up:
	case m.w.now.Before(m.asleep):
		m.w.after(m.asleep.Sub(m.w.now), func() { m.when(do) })
	default:
		do()
	}
}

// connect opens a session, or tries again.
func (m *member) connect() {
	if m.x != nil && m.x.open {
		return
	}
	s := m.w.lh
	if !s.up {
		m.w.after(m.w.between(50*time.Millisecond, 300*time.Millisecond), func() { m.when(m.connect) })
		return
	}
	x := &session{m: m, life: s.life, open: true}
	if old := s.sessions[m.id]; old != nil {
		old.open = false
	}
	s.sessions[m.id], m.x = x, x
	h := quorum.Hello{ReplicaID: m.rid(), Client: quorum.KindSkerry, Position: m.pos, Last: m.lastAnswer()}
	s.receive(x, func() error { return s.m.Open(m.w.now, h) })
	m.wants, m.again = m.wants || m.again && m.stands, false
	if m.join != nil {
		m.send()
	}
	m.beat(x)
	m.joinIfDue()
}

func (m *member) sessionBroke(x *session) {
	if m.x == x {
		m.x = nil
		m.w.after(m.w.between(20*time.Millisecond, 200*time.Millisecond), func() { m.when(m.connect) })
	}
}

func (m *member) connected() bool { return m.x != nil && m.x.open }

// beat tells the lighthouse how far the member is, again and again.
func (m *member) beat(x *session) {
	if m.x != x || !x.open {
		return
	}
	b := quorum.Beat{Position: m.pos, Ballots: m.ballots, Progress: m.ballots, Phase: quorum.PhaseTraining}
	if m.in != nil {
		b.QuorumID = m.in.ID
	}
	m.w.lh.receive(x, func() error { return m.w.lh.m.Beat(m.w.now, m.rid(), b) })
	m.w.after(beatEvery, func() { m.when(func() { m.beat(x) }) })
}

func (m *member) lastAnswer() *quorum.LastAnswer {
	if m.in == nil {
		return nil
	}
	return &quorum.LastAnswer{Cluster: m.in.Cluster, QuorumID: m.in.ID, Round: m.in.Round, Members: m.in.Members}
}

// joinIfDue joins with fall when the member has no quorum, and with ask when it
// is due to ask.
func (m *member) joinIfDue() {
	switch {
	case m.join != nil || !m.connected():
	case !m.stands:
		m.newJoin(quorum.JoinFall)
		m.maybeGiveUp(m.join.Number)
	case m.ask:
		m.newJoin(quorum.JoinAsk)
		number := m.join.Number
		m.w.after(m.w.o.config().HeartbeatTimeout, func() { m.when(func() { m.unanswered(number) }) })
	}
}

func (m *member) newJoin(kind quorum.JoinKind) {
	j := &quorum.Join{
		Member: quorum.Member{
			ReplicaID: m.rid(), Address: "http://" + m.id, StoreAddress: m.id + ":1",
			GroupWorldSize: m.w.o.Ranks, Position: m.pos, Sync: m.w.o.Sync || m.in == nil,
		},
		Client: quorum.KindSkerry, Kind: kind, Number: m.next,
		LastDigests: m.last, Fact: m.fact, Last: m.lastAnswer(),
	}
	if m.fact.Kind == quorum.Refused {
		j.Member.CommitFailures = 1
	}
	m.next++
	m.join = j
	m.send()
}

// send delivers the outstanding join; after a new session, again.
func (m *member) send() {
	j := *m.join
	m.w.note("%s joins #%d %v at %v, %v", m.id, j.Number, j.Kind, m.pos, j.Fact)
	m.w.lh.receive(m.x, func() error {
		if err := m.w.lh.m.Join(m.w.now, j); err != nil {
			return err
		}
		m.w.lh.joins[m.rid()] = j
		return nil
	})
}

// unanswered withdraws an ask after a heartbeat timeout; training goes on.
func (m *member) unanswered(number uint64) {
	if m.join == nil || m.join.Number != number {
		return
	}
	m.withdraw()
	m.ask, m.wants, m.again = false, false, true
	m.compute()
}

// maybeGiveUp ends the wait of a prepared trainer, sometimes.
func (m *member) maybeGiveUp(number uint64) {
	if m.w.calm || m.fact.Kind != quorum.Prepared || m.w.rng.IntN(10) >= m.w.o.Kinds[faultGiveUp] {
		return
	}
	m.w.after(m.w.between(0, 3*time.Second), func() {
		m.when(func() {
			if m.join == nil || m.join.Number != number || m.fact.Kind != quorum.Prepared {
				return
			}
			m.w.note("%s gives up step %d@%d", m.id, m.fact.Step, m.fact.QuorumID)
			m.withdraw()
			m.fact.Kind, m.fact.Digests, m.pend = quorum.GaveUp, nil, 0
			m.joinIfDue()
		})
	})
}

func (m *member) withdraw() {
	number := m.join.Number
	m.join = nil
	if !m.connected() {
		return
	}
	m.w.lh.receive(m.x, func() error {
		m.w.lh.m.Withdraw(m.w.now, m.rid(), number)
		if j, ok := m.w.lh.joins[m.rid()]; ok && j.Number == number {
			delete(m.w.lh.joins, m.rid())
		}
		return nil
	})
}

// answered takes an answer, or refuses that of a join which is no more.
func (m *member) answered(q *quorum.Quorum, number uint64) {
	m.heard()
	if m.join == nil || m.join.Number != number {
		return
	}
	plan, err := quorum.Assign(q, m.rid(), 0)
	if err != nil {
		m.w.fail("Q4", "%s is answered with %d.%d: %v", m.id, q.ID, q.Round, err)
		return
	}
	if m.in != nil && q.ID == m.in.ID && !m.stands {
		m.w.fail("epoch", "%s fell from quorum %d and is told to use it again", m.id, q.ID)
		return
	}
	if !m.settle(plan.Position) {
		return
	}
	same := m.in != nil && m.in.ID == q.ID
	m.in, m.plan, m.stands, m.join = q, plan, true, nil
	m.ask, m.wants, m.again, m.unhealed = false, false, false, false
	if same {
		m.heal(m.group, 0)
		return
	}
	m.configure()
}

func (m *member) heard() {
	m.wants, m.again = m.wants || m.again && m.stands, false
}

// settle rolls forward, or discards, as the position after settlement says.
func (m *member) settle(after quorum.Position) bool {
	f := m.fact
	if f.Kind == quorum.Prepared && after.Step == f.Step && after.QuorumID == f.QuorumID {
		m.w.note("%s rolls forward to %v", m.id, after)
		m.commit(stepKey{q: f.QuorumID, step: f.Step}, m.pend, f.Digests)
		return true
	}
	if after != m.pos {
		m.w.fail("C1", "%s is at %v, and its quorum has it at %v", m.id, m.pos, after)
		return false
	}
	m.w.check.discards(m)
	m.fact, m.pend = quorum.Fact{}, 0
	return true
}

// commit moves the member to a step of a quorum.
func (m *member) commit(k stepKey, bytes uint64, d []quorum.Digest) {
	m.pos = quorum.Position{Cluster: "x", Step: k.step, QuorumID: k.q}
	m.bytes, m.last, m.fact, m.pend = bytes, d, quorum.Fact{}, 0
	m.w.check.commit(m)
}

// notice takes what the lighthouse pushes.
func (m *member) notice(n quorum.Notice) {
	m.heard()
	if n.Kind == quorum.NoticeProbe {
		if m.connected() {
			m.w.lh.receive(m.x, func() error { m.w.lh.m.Reply(m.w.now, m.rid(), n.Number); return nil })
		}
		return
	}
	if m.in == nil || n.QuorumID < m.in.ID {
		return
	}
	switch n.Kind {
	case quorum.NoticeWanted:
		m.wants = m.wants || m.stands
	case quorum.NoticeLost, quorum.NoticeFallen:
		m.breakGroup("notice: " + n.Reason)
		f := n.Fact
		if f.Kind == quorum.Committed && m.fact.Kind == quorum.Prepared && f.Step == m.fact.Step &&
			f.QuorumID == m.fact.QuorumID && slices.Equal(f.Digests, m.fact.Digests) {
			m.w.note("%s hears that %d@%d was committed", m.id, f.Step, f.QuorumID)
			if m.join != nil {
				m.withdraw()
			}
			m.commit(stepKey{q: f.QuorumID, step: f.Step}, m.pend, m.fact.Digests)
			m.joinIfDue()
		}
	}
}

// die ends this incarnation.
func (m *member) die(loud bool) {
	m.w.note("%s dies, loud %v", m.id, loud)
	m.w.check.crashes++
	m.up = false
	notice := linkSilence
	if loud {
		notice = m.w.between(200*time.Microsecond, 5*time.Millisecond)
	}
	m.w.peersNotice(m, notice)
	if x := m.x; x != nil && x.open {
		x.open = !loud
		if loud {
			m.w.lh.broke(x, "process died")
		}
	}
}
