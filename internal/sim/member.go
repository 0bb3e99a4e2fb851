package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// member is one incarnation of a replica: its manager, its ranks, its trainer.
type member struct {
	w      *world
	index  int
	name   string
	life   int
	id     string
	up     bool
	asleep int64 // paused until then
	slow   int64 // its messages take longer until then
	x      *session
	dials  int     // how often it tried to connect: the servers in turn
	hint   *server // whom it was told to ask
	cutOff []int64 // by server: nothing passes until then
	out    []*wire // to the other members, by index

	ranks []quorum.Rank // by group rank; all are at one position
	bytes uint64
	line  int      // whose bytes descend from which flipped bit; 0: from none
	was   stepName // the attempt that the ranks have promised
	pend  uint64   // bytes of the prepared step
	join  *quorum.Join
	next  uint64

	view   formedView // the newest answer taken, for the checkers
	peers  []*member  // its other members
	plan   quorum.Assignment
	group  int     // rises whenever the group is configured or breaks; old timers see it
	ready  bool    // configured, and healed or found unable to
	passed int64   // steps of this answer for which it was unhealed
	hellos []int64 // newest, by member index
	steps  []*attempt
	polls  *quorum.Polls

	discarded stepName // the newest attempt that ended in nothing
	moves     uint64

	probing   []*member // peers that were out of reach
	ails      ails
	armed     [faultKinds]bool // what goes wrong the next time
	disturbed int64            // until when a fault was at work here
}

// idMiddle makes a name and a number an incarnation's id; people need not see it.
const idMiddle = ":00000000-0000-4000-8000-000000000"

// birth adds an incarnation that connects after a while.
func (w *world) birth(name string, life int, after time.Duration) {
	m := &member{
		w: w, index: len(w.members), name: name, life: life, up: true, next: 1,
		id:     fmt.Sprintf("%s%s%03d", name, idMiddle, life),
		cutOff: make([]int64, len(w.servers)), polls: quorum.NewPolls(w.o.Ranks), dials: w.rng.IntN(8),
	}
	for g := range w.o.Ranks {
		m.ranks = append(m.ranks, quorum.NewRank(w.o.rank(g)))
	}
	if w.o.InitSync {
		m.bytes = mix(uint64(len(w.members)), 7)
	}
	w.members = append(w.members, m)
	w.byID[quorum.ReplicaID(m.id)] = m
	w.lives[name] = life
	w.note("%s is born", m.id)
	m.after(after, m.connect)
}

func (m *member) rid() quorum.ReplicaID { return quorum.ReplicaID(m.id) }

// first is the rank that speaks for what all ranks have in common.
func (m *member) first() *quorum.Rank { return &m.ranks[0] }

func (m *member) pos() quorum.Position { return m.first().Position() }

func (m *member) in() *quorum.Quorum { return m.first().Quorum() }

func (m *member) stands() bool { return m.first().Standing() }

// each does f to every rank, and says whether f said so of any.
func (m *member) each(f func(r *quorum.Rank) bool) bool {
	any := false
	for g := range m.ranks {
		any = f(&m.ranks[g]) || any
	}
	return any
}

// when does something at the member: never if it is dead, later if it is
// paused.
func (m *member) when(do func()) {
	switch {
	case !m.up:
	case m.w.now < m.asleep:
		m.w.at(m.asleep, func() { m.when(do) })
	default:
		do()
	}
}

// after is a timer of the member's own clock.
func (m *member) after(d time.Duration, do func()) {
	m.w.queue.push(m.w.now+int64(d), event{do: func() { m.when(do) }, timer: m})
}

// connect opens a session through a server, or tries again.
func (m *member) connect() {
	if m.connected() {
		return
	}
	w := m.w
	s := m.hint
	if s == nil {
		s = w.servers[m.dials%len(w.servers)]
		m.dials++
	}
	m.hint = nil
	retry := w.now + int64(w.between(100*time.Millisecond, 250*time.Millisecond))
	dial := m.dials
	w.at(retry, func() {
		m.when(func() {
			if m.dials == dial && !m.connected() {
				m.connect()
			}
		})
	})
	if m.cutOff[s.index] > w.now {
		return
	}
	w.after(w.between(100*time.Microsecond, w.o.DelayMax), func() {
		s.when(func() { m.dialled(s) })
	})
}

// dialled is a dial that reached a server: it leads, or knows who does, or the
// member tries elsewhere.
func (m *member) dialled(s *server) {
	w, r := m.w, s.reign
	if r == nil && s.leader >= 0 && s.leader != s.index && w.cutServers[s.index][s.leader] <= w.now {
		if l := w.servers[s.leader]; l.up && l.asleep <= w.now {
			r = l.reign
		}
	}
	if r == nil || r.over || !m.up || m.connected() || w.now < m.asleep {
		return
	}
	x := &session{m: m, r: r, via: s, open: true, began: w.now}
	m.x = x
	h := quorum.Hello{ReplicaID: m.rid(), Client: quorum.KindSkerry, Position: m.pos(), Last: m.first().LastAnswer()}
	x.up = x.delay(0)
	w.at(x.up, func() {
		r.s.when(func() {
			if x.open && !r.over {
				r.take(func(now time.Time) { r.open(now, x, h) })
			}
		})
	})
	m.heard()
	for _, o := range m.probing {
		m.reportLink(o)
	}
	if m.join != nil {
		m.send()
	}
	m.beat(x)
	m.joinIfDue()
}

// open is the shell's side of a hello.
func (r *reign) open(now time.Time, x *session, h quorum.Hello) {
	if !x.open {
		return
	}
	err := r.m.Open(now, h)
	if err != nil {
		r.w.note("%s is refused a session: %v", x.m.id, err)
		x.push(func(m *member) { m.refused(err) })
		return
	}
	if old := r.sessions[x.m.id]; old != nil && old != x {
		old.gone = true
		old.lose(true)
	}
	r.sessions[x.m.id] = x
	r.told()
	r.book.opened(now.Sub(epochStart), x.m.id, place(h.Position))
}

// refused ends an incarnation that may not go on; another one comes.
func (m *member) refused(err error) {
	switch {
	case errors.Is(err, quorum.ErrStaleJoin), errors.Is(err, quorum.ErrNoSession):
	case errors.Is(err, quorum.ErrEvicted), errors.Is(err, quorum.ErrNameInUse), errors.Is(err, quorum.ErrDrained):
		m.exit("refused: " + err.Error())
	default:
		m.w.fail("refused", "%s: %v", m.id, err)
	}
}

// exit ends an incarnation in an orderly way, and its supervisor starts another.
func (m *member) exit(why string) {
	if !m.up {
		return
	}
	m.w.note("%s exits: %s", m.id, why)
	if x := m.x; x != nil && x.open {
		x.receive(func(now time.Time) {
			x.gone = true
			delete(x.r.sessions, m.id)
			x.r.book.left(now.Sub(epochStart), m.id)
			x.r.m.Leave(now, m.rid(), "")
		})
	}
	m.up = false
	m.w.peersNotice(m, m.w.between(200*time.Microsecond, 5*time.Millisecond))
	m.w.reborn(m, m.w.between(300*time.Millisecond, 2*time.Second))
}

func (m *member) sessionBroke(x *session) {
	if m.x == x {
		m.x = nil
		m.after(m.w.between(5*time.Millisecond, 100*time.Millisecond), m.connect)
	}
}

func (m *member) connected() bool { return m.x != nil && m.x.open }

// beat tells the lighthouse how far the member is, again and again.
func (m *member) beat(x *session) {
	if m.x != x || !x.open {
		return
	}
	b := quorum.Beat{
		Position: m.pos(), QuorumID: m.first().QuorumID(), Ballots: m.first().Ballots(),
		Progress: m.progress(), Phase: quorum.PhaseTraining, Waits: m.waits(), Away: m.away(),
	}
	r := x.r
	x.receive(func(now time.Time) {
		if r.m.Beat(now, m.rid(), b) == nil {
			r.told()
			r.book.beat(now.Sub(epochStart), m.id, place(b.Position))
		}
	})
	m.after(beatEvery, func() { m.beat(x) })
}

// waits says that the member waits for others: for an answer, a group, a state, or
// in a step that it has begun.
func (m *member) waits() bool {
	return m.join != nil || m.stands() && !m.ready || m.ails.since == 0 &&
		slices.ContainsFunc(m.steps, func(a *attempt) bool { return a.begun && !a.over })
}

// joinIfDue joins when the ranks wish for another quorum, and no join is out.
func (m *member) joinIfDue() {
	if m.join != nil || !m.connected() || m.stays() {
		return
	}
	m.each((*quorum.Rank).Need)
	if !m.first().Due() {
		return
	}
	m.newJoin()
	number := m.join.Number
	if m.first().Asks() {
		m.after(m.w.o.config().HeartbeatTimeout, func() { m.unanswered(number) })
	} else {
		m.maybeGiveUp(number)
	}
}

func (m *member) newJoin() {
	self := quorum.Member{ReplicaID: m.rid(), Address: m.name, StoreAddress: m.name, GroupWorldSize: m.w.o.Ranks}
	reports := make([]quorum.RankReport, len(m.ranks))
	for g := range m.ranks {
		r := &m.ranks[g]
		reports[g] = r.Report(quorum.ReportOptions{Sync: r.Syncs()})
		if f := m.w.mutant.onReport; f != nil {
			f(&reports[g])
		}
	}
	j, err := quorum.MergeReports(self, reports)
	if err != nil {
		m.w.fail("join", "%s: %v", m.id, err)
		return
	}
	j.Number, j.Last = m.next, m.first().LastAnswer()
	m.next++
	m.join = &j
	m.send()
}

// prepared says that all ranks have promised a step whose outcome they do not know.
func (m *member) prepared() bool {
	return !m.each(func(r *quorum.Rank) bool { return !r.Prepared() })
}

// send delivers the outstanding join; after a new session, again.
func (m *member) send() {
	j := *m.join
	if m.w.tracing {
		m.w.note("%s joins #%d %v at %v, %v", m.id, j.Number, j.Kind, m.pos(), j.Fact)
	}
	heard := j
	if f := m.w.mutant.onJoin; f != nil {
		f(&heard)
	}
	r := m.x.r
	m.x.receive(func(now time.Time) {
		if err := r.m.Join(now, heard); err != nil {
			if x := r.sessions[m.id]; x != nil {
				x.push(func(m *member) {
					if m.join != nil && m.join.Number == j.Number {
						m.refused(err)
					}
				})
			}
			return
		}
		r.joins[j.Member.ReplicaID] = heard
		r.told()
		r.book.joins(now.Sub(epochStart), &j)
	})
}

// unanswered withdraws an ask after a heartbeat timeout; training goes on.
func (m *member) unanswered(number uint64) {
	if m.join == nil || m.join.Number != number {
		return
	}
	m.withdraw()
	if m.each((*quorum.Rank).Unanswered) && m.each((*quorum.Rank).Fulfil) {
		m.compute()
	}
}

// maybeGiveUp ends the wait of a prepared trainer, if that fault is due.
func (m *member) maybeGiveUp(number uint64) {
	if !m.prepared() || !m.strikes(FaultGiveUp) {
		return
	}
	m.after(m.w.between(0, 1500*time.Millisecond), func() {
		if m.join == nil || m.join.Number != number || !m.prepared() {
			return
		}
		m.w.note("%s gives up %v", m.id, m.was)
		m.withdraw()
		if !m.w.mutant.keepsClaim {
			m.each(func(r *quorum.Rank) bool { _, ok := r.GiveUp(); return ok })
			m.each(func(r *quorum.Rank) bool { return r.End(quorum.Resolution{Counts: true}).Asks })
		}
		m.pend = 0
		m.joinIfDue()
	})
}

func (m *member) withdraw() {
	number := m.join.Number
	m.join = nil
	if !m.connected() {
		return
	}
	r := m.x.r
	m.x.receive(func(now time.Time) {
		r.m.Withdraw(now, m.rid(), number)
		r.book.withdraws(m.id, number)
	})
}

// answered takes an answer, or refuses that of a join which is no more.
func (m *member) answered(q *quorum.Quorum, number uint64) {
	m.heard()
	if m.w.mutant.takesWithdrawn && m.join != nil && !m.stands() && number < m.join.Number && q.ID > m.in().ID {
		number = m.join.Number
	}
	if m.join == nil || m.join.Number != number {
		return
	}
	if m.in() != nil && q.ID == m.in().ID && !m.stands() {
		m.w.fail("Q2", "%s fell from quorum %d and is told to use it again", m.id, q.ID)
		return
	}
	promised := m.prepared()
	var took []quorum.Taken
	for g := range m.ranks {
		t, err := m.ranks[g].Take(m.rid(), q, false, 0)
		switch {
		case t.Left && m.first().Draining() != "":
			m.join = nil
			m.after(m.w.between(20*time.Millisecond, 400*time.Millisecond), func() { m.exit("drained") })
			return
		case err != nil:
			m.w.fail("Q4", "%s is answered with %d.%d: %v", m.id, q.ID, q.Round, err)
			return
		}
		took = append(took, t)
	}
	m.taken(q, took, promised)
}

// taken does what an answer came to at all ranks.
func (m *member) taken(q *quorum.Quorum, took []quorum.Taken, promised bool) {
	m.join, m.plan = nil, *m.first().Assignment()
	if f := m.w.mutant.onPlan; f != nil {
		f(q, &m.plan)
	}
	m.view = m.w.record(quorum.Formed{Quorum: *q})
	m.w.check.take(m.id, m.view)
	if !m.settled(took, promised) {
		return
	}
	m.passed = 0
	if took[0].Fresh {
		m.configure()
	} else {
		m.ready = false
		m.heal(m.group, 0)
	}
	for _, n := range took[0].Early {
		m.notice(n)
	}
}

// heard notes that the lighthouse is there.
func (m *member) heard() {
	m.each(func(r *quorum.Rank) bool { r.HearAgain(); return false })
}

// settled rolls the bytes forward, or discards them, as the ranks did.
func (m *member) settled(took []quorum.Taken, promised bool) bool {
	forward := slices.ContainsFunc(took, func(t quorum.Taken) bool { return t.Settled.Forward })
	if took[0].Settled.Known {
		m.each(func(r *quorum.Rank) bool { return r.End(quorum.Resolution{Commit: forward, Counts: true}).Asks })
	}
	switch {
	case forward:
		if m.w.tracing {
			m.w.note("%s rolls forward to %v", m.id, m.pos())
		}
		m.committed(m.was, m.pend, nil)
	case m.plan.Position != m.pos():
		m.w.fail("C1", "%s is at %v, and its quorum has it at %v", m.id, m.pos(), m.plan.Position)
		return false
	case promised:
		m.w.check.discard(m.id, pos{m.was.step, m.was.q}, m.pend)
	}
	m.pend = 0
	return true
}

// committed makes a step's bytes the member's. others are those whose ballots say
// so; none if it was told.
func (m *member) committed(s stepName, bytes uint64, others []string) {
	m.bytes, m.pend = bytes, 0
	if others == nil {
		others = []string{m.id}
		m.w.check.told(s)
	}
	m.w.check.commit(m.id, s, m.w.o.Ranks, others, bytes)
	m.w.committed()
}

// notice takes what the lighthouse pushes.
func (m *member) notice(n quorum.Notice) {
	m.heard()
	switch n.Kind {
	case quorum.NoticeProbe:
		m.reply(n.Number)
		return
	case quorum.NoticeDrain:
		m.drained()
		return
	case quorum.NoticeEvict:
		m.exit("evicted")
		return
	case quorum.NoticeRefused:
		if m.join != nil && m.join.Number == n.Number {
			m.exit("name in use")
		}
		return
	}
	if f := m.w.mutant.onNotice; f != nil && f(n) {
		return
	}
	if m.each(func(r *quorum.Rank) bool { return r.Hear(n) == quorum.HeardFall }) {
		m.breakGroup("notice: " + n.Reason)
	}
}

func (m *member) reply(number uint64) {
	if !m.connected() {
		return
	}
	r := m.x.r
	m.x.receive(func(now time.Time) {
		r.m.Reply(now, m.rid(), number)
		r.told()
		r.book.hears(now.Sub(epochStart), m.id)
	})
}

// drained notes that it is to go: with the first quorum without it, or after a
// while.
func (m *member) drained() {
	if !m.each(func(r *quorum.Rank) bool { return r.Drain("told to") }) {
		return
	}
	m.w.note("%s drains", m.id)
	m.after(drainLimit, func() { m.exit("drained, though nobody took over") })
}

// die ends this incarnation.
func (m *member) die(loud bool) {
	m.w.note("%s dies, loud %v", m.id, loud)
	m.w.crashes++
	m.up = false
	notice := linkSilence
	if loud {
		notice = m.w.between(200*time.Microsecond, 5*time.Millisecond)
	}
	m.w.peersNotice(m, notice)
	x := m.x
	if x == nil || !x.open {
		return
	}
	if loud {
		x.open = false
		x.broke("process died", false)
		return
	}
	m.w.after(keepAlive, func() { x.open = false; x.broke("keep-alive", false) })
}
