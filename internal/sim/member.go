package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// member is one incarnation of a replica: its processes, its ranks, and what its
// server knows.
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

	ranks []*rank // by group rank
	hub   hub

	probing   []*member // peers that were out of reach
	ailment   ailment
	disturbed int64 // until when a fault was at work here
}

// idMiddle makes a name and a number an incarnation's id; people need not see it.
const idMiddle = ":00000000-0000-4000-8000-000000000"

// birth adds an incarnation that connects, and whose trainers start, after a while.
func (w *world) birth(name string, life int, after time.Duration) {
	m := &member{
		w: w, index: len(w.members), name: name, life: life, up: true,
		id:     fmt.Sprintf("%s%s%03d", name, idMiddle, life),
		cutOff: make([]int64, len(w.servers)), dials: w.rng.IntN(8),
	}
	m.hub = newHub(w.o.Ranks)
	for g := range w.o.Ranks {
		m.ranks = append(m.ranks, newRank(m, g))
	}
	w.members = append(w.members, m)
	w.byID[quorum.ReplicaID(m.id)] = m
	w.lives[name] = life
	w.note("%s is born", m.id)
	m.after(after, m.connect)
	for _, r := range m.ranks {
		m.after(after, r.start)
	}
}

func (m *member) rid() quorum.ReplicaID { return quorum.ReplicaID(m.id) }

// first is the rank that speaks for what all ranks have in common.
func (m *member) first() *rank { return m.ranks[0] }

func (m *member) pos() quorum.Position { return m.first().Position() }

func (m *member) in() *quorum.Quorum { return m.first().Quorum() }

func (m *member) stands() bool { return m.first().Standing() }

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
	m.w.queue.Push(m.w.now+int64(d), event{do: func() { m.when(do) }, timer: m})
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
	w, r := m.w, s.leadership
	if r == nil && s.Leader() >= 0 && s.Leader() != s.index && w.cutServers[s.index][s.Leader()] <= w.now {
		if l := w.servers[s.Leader()]; l.up && l.asleep <= w.now {
			r = l.leadership
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
	if m.hub.join != nil {
		m.send()
	}
	m.beat(x)
}

// open is the shell's side of a hello.
func (r *leadership) open(now time.Time, x *session, h quorum.Hello) {
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
	r.book.Opened(now.Sub(epochStart), x.m.id, h.Position)
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
			x.r.book.Left(now.Sub(epochStart), m.id)
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
		Progress: m.first().moves, Phase: quorum.PhaseTraining, Waits: m.first().waitsForOthers(), Away: m.hub.isAway(),
	}
	r := x.r
	x.receive(func(now time.Time) {
		if r.m.Beat(now, m.rid(), b) == nil {
			r.told()
			r.book.Beat(now.Sub(epochStart), m.id, b.Position)
		}
	})
	m.after(beatEvery, func() { m.beat(x) })
}

// heard notes that the lighthouse is there.
func (m *member) heard() {
	for _, r := range m.ranks {
		r.HearAgain()
	}
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
	case quorum.NoticeStay:
		m.stays()
		return
	case quorum.NoticeEvict:
		m.exit("evicted")
		return
	case quorum.NoticeRefused:
		if m.hub.join != nil && m.hub.join.Number == n.Number {
			m.exit("name in use")
		}
		return
	}
	if f := m.w.mutant.onNotice; f != nil && f(n) {
		return
	}
	for _, r := range m.ranks {
		m.toRank(r.g, func() { r.onNotice(n) })
	}
}

func (m *member) reply(number uint64) {
	m.tell(func(r *leadership, now time.Time) {
		r.m.Reply(now, m.rid(), number)
		r.told()
		r.book.Heard(now.Sub(epochStart), m.id)
	})
}

// drained notes that it is to go: with the first quorum without it, or after a
// while.
func (m *member) drained() {
	for _, r := range m.ranks {
		if !r.Drain("told to") {
			return
		}
	}
	m.w.note("%s drains", m.id)
	m.after(drainLimit, func() {
		if m.first().Draining() != "" {
			m.exit("drained, though nobody took over")
		}
	})
	m.askDrain()
}

// askDrain asks again and again whether its drain still holds: the word that it was taken
// back may be lost with a stream.
func (m *member) askDrain() {
	m.after(drainAgain, func() {
		if m.first().Draining() == "" {
			return
		}
		m.tell(func(r *leadership, _ time.Time) {
			if drains, known := r.m.Drains(m.rid()); known && !drains {
				m.after(m.w.between(100*time.Microsecond, 5*time.Millisecond), m.stays)
			}
		})
		m.askDrain()
	})
}

// stays notes that its drain was taken back.
func (m *member) stays() {
	for _, r := range m.ranks {
		if r.Stay() {
			m.w.note("%s stays", r.name)
		}
	}
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
