package sim

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// attempt is what a member knows of one attempt at a step, whether it has begun
// it or only heard of it.
type attempt struct {
	key   stepName
	poll  uint64 // its number in the member's polls
	begun bool
	over  bool
	ranks []rankStep
}

// rankStep is one group rank's part. Lists are by replica rank.
type rankStep struct {
	grads   []uint64
	there   int // gradients that came
	ballots []*quorum.Ballot
	came    int
	digest  quorum.Digest
	sum     uint64
	sent    bool
	voted   bool
}

// stepMessage is what a member sends to all others in a step: its gradients, of
// every group rank, or one group rank's ballot.
type stepMessage struct {
	from  *member
	rank  int // replica rank
	size  int // of the quorum
	key   stepName
	grads []uint64
	g     int
	vote  *quorum.Ballot
}

// carried marks a gradient that came, so that zero is one too.
const carried = 1 << 63

func (m *member) attempt(k stepName, size int) *attempt {
	for _, a := range m.steps {
		if a.key == k {
			return a
		}
	}
	a := &attempt{key: k, ranks: make([]rankStep, m.w.o.Ranks)}
	for g := range a.ranks {
		a.ranks[g].grads = make([]uint64, size)
		a.ranks[g].ballots = make([]*quorum.Ballot, size)
	}
	m.steps = append(m.steps, a)
	return a
}

// receive takes a step's message. One of a higher round ends the lower one.
func (m *member) receive(s *stepMessage) {
	if m.in != nil && s.key.q < m.in.ID {
		return
	}
	a := m.attempt(s.key, s.size)
	if s.rank >= len(a.ranks[0].grads) {
		return // an id with two lists: the checkers say so
	}
	if s.vote != nil {
		m.ballot(a, s.g, s.rank, s.vote)
		return
	}
	for g, grad := range s.grads {
		a.ranks[g].put(s.rank, grad)
	}
	if m.in != nil && s.key.q == m.in.ID && s.key.round > m.in.Round && m.stands && m.join == nil {
		m.breakGroup(s.from.id + " is in a later round")
		return
	}
	for g := range s.grads {
		m.reduce(a, g)
	}
}

func (r *rankStep) put(rank int, grad uint64) {
	if r.grads[rank] == 0 {
		r.there++
	}
	r.grads[rank] = grad | carried
}

// configure builds the group: everybody says hello to everybody.
func (m *member) configure() {
	m.group++
	m.ready = false
	m.steps = slices.DeleteFunc(m.steps, func(a *attempt) bool { return a.key.q < m.in.ID })
	m.peers = m.peers[:0]
	for _, o := range m.in.Members {
		if o.ReplicaID != m.rid() {
			m.peers = append(m.peers, m.w.byID[o.ReplicaID])
		}
	}
	m.deadline(opDeadline, "configure", func() bool { return m.ready })
	m.openStore(m.group, 0)
	m.configured()
}

// deadline breaks the group after d, unless it is done, or another group.
func (m *member) deadline(d time.Duration, what string, done func() bool) {
	group := m.group
	m.after(d, func() {
		if m.group == group && !done() {
			m.w.late(m, what, d)
			m.breakGroup(what + " took too long")
		}
	})
}

func (m *member) helloOf(o *member) int64 {
	if o.index < len(m.hellos) {
		return m.hellos[o.index]
	}
	return 0
}

// hello of a higher quorum breaks the one that the sender left.
func (m *member) hello(from *member, id int64) {
	for len(m.hellos) <= from.index {
		m.hellos = append(m.hellos, 0)
	}
	m.hellos[from.index] = max(m.hellos[from.index], id)
	if m.in == nil || !m.stands || !slices.Contains(m.peers, from) {
		return
	}
	if id > m.in.ID {
		m.breakGroup(from.id + " is in a later quorum")
		return
	}
	m.configured()
}

// configured goes on once all hellos are there.
func (m *member) configured() {
	if m.ready || !m.stands {
		return
	}
	for _, o := range m.peers {
		if m.helloOf(o) != m.in.ID {
			return
		}
	}
	m.probing = slices.DeleteFunc(m.probing, func(o *member) bool { return slices.Contains(m.peers, o) })
	m.heal(m.group, 0)
}

// heal asks the n-th donor, or goes on.
func (m *member) heal(group, n int) {
	if m.group != group || m.ready && n > 0 {
		return
	}
	// Up to date by position, but for a first quorum in which all begin with the
	// bytes of one.
	level := m.pos == m.plan.Max && !m.w.o.InitSync || m.pos == m.plan.Max && m.pos.Step > 0
	if !m.plan.Heal || level || n == len(m.plan.Sources) {
		m.unhealed = m.plan.Heal && !level
		m.ready = true
		m.compute()
		return
	}
	donor := m.w.byID[m.plan.Sources[n].ReplicaID]
	id, healed := m.in.ID, false
	m.w.send(m, donor, func() {
		if donor.in == nil || donor.in.ID != id || donor.pos != m.plan.Max && !m.w.mutant.anyDonor {
			return // it answers nothing, and the next one is asked
		}
		bytes, last := donor.bytes, donor.last
		m.w.send(donor, m, func() {
			if m.group != group || m.ready || m.strikes(FaultHeal) {
				return
			}
			healed = true
			m.pos, m.bytes, m.last = m.plan.Max, bytes, last
			if m.pos.Step > 0 {
				m.w.check.hold(m.id, place(m.pos), m.bytes)
			}
			m.ready = true
			m.compute()
		})
	})
	m.after(healDeadline/time.Duration(len(m.plan.Sources)), func() {
		if !healed {
			m.heal(group, n+1)
		}
	})
}

// compute runs forward and backward, then exchanges gradients.
func (m *member) compute() {
	if !m.stands || !m.ready || m.ask || m.join != nil {
		return
	}
	group, round := m.group, m.in.Round
	took := m.w.between(m.w.o.StepTime/2, m.w.o.StepTime)
	if m.slow > m.w.now {
		took *= slowdown
	}
	m.w.at(m.w.now+int64(took), func() {
		m.when(func() {
			if m.group == group && m.stands && m.in.Round == round && m.join == nil && !m.ask {
				m.exchange()
			}
		})
	})
}

// exchange sends this member's gradients of every group rank to everybody.
func (m *member) exchange() {
	step := m.pos.Step + 1
	if m.unhealed {
		step = m.plan.Max.Step + 1 + m.passed
	}
	k := stepName{m.in.ID, m.in.Round, step, 0}
	if last := m.discarded; last.q == k.q && last.round == k.round && last.step == k.step {
		k.try = last.try + 1
	}
	a := m.attempt(k, len(m.in.Members))
	if a.begun {
		return
	}
	m.tries++
	a.begun, a.poll = true, m.tries
	m.w.attempted(k)
	grads := make([]uint64, len(a.ranks)) // the identity, of one that does not participate
	for g := range grads {
		if m.plan.ParticipantRank >= 0 && !m.unhealed {
			grads[g] = m.w.rng.Uint64() >> 1
		}
		a.ranks[g].put(m.plan.ReplicaRank, grads[g])
	}
	m.sendStep(&stepMessage{from: m, size: len(m.in.Members), rank: m.plan.ReplicaRank, key: k, grads: grads})
	m.deadline(opDeadline, "step", func() bool { return a.over })
	for g := range a.ranks {
		m.reduce(a, g)
	}
}

func (m *member) sendStep(s *stepMessage) {
	for _, o := range m.peers {
		m.w.sendStep(m, o, s)
	}
}

// reduce folds a rank's gradients once all are there, and ballots.
func (m *member) reduce(a *attempt, g int) {
	r := &a.ranks[g]
	if !a.begun || a.over || r.sent || r.there < len(m.in.Members) {
		return
	}
	r.sum = mix(uint64(a.key.q), uint64(a.key.round), uint64(a.key.step), uint64(g))
	for _, grad := range r.grads {
		r.sum = mix(r.sum, grad)
	}
	if m.strikes(FaultOdd) {
		m.w.note("%s reduces rank %d of %v oddly", m.id, g, a.key)
		r.sum++
	}
	r.sent = true
	r.digest = quorum.Digest{Valid: true, Sum: uint32(r.sum)}
	fine := !m.strikes(FaultCheck)
	b := &quorum.Ballot{
		QuorumID: a.key.q, Round: a.key.round, Position: m.pos, OK: fine && !m.unhealed, Reduced: fine,
		Healed: m.plan.Heal && !m.unhealed && m.pos == m.plan.Max, Unhealed: m.unhealed,
		ChangeWanted: m.wants || m.unhealed, Digest: r.digest,
	}
	if b.OK {
		m.claim[g].Promise(a.key.step, a.key.q)
		m.was = a.key
	}
	m.w.check.ballots(m.id, a.key, g, fine)
	rank := m.plan.ReplicaRank
	m.sendStep(&stepMessage{from: m, size: len(m.in.Members), rank: rank, key: a.key, g: g, vote: b})
	m.ballot(a, g, rank, b)
}

// ballot takes one ballot, and votes when all are there.
func (m *member) ballot(a *attempt, g, rank int, b *quorum.Ballot) {
	r := &a.ranks[g]
	if r.ballots[rank] == nil {
		r.came++
	}
	r.ballots[rank] = b
	if r.came == len(r.ballots) {
		m.judge(a, g, false)
	}
}

// judge votes, if there is something to say. Broken says that no more ballots
// will come.
func (m *member) judge(a *attempt, g int, broken bool) {
	r := &a.ranks[g]
	if !a.begun || a.over || r.voted || !r.sent && !broken {
		return
	}
	v := quorum.Verdict{Vote: quorum.VoteNo, Broken: true}
	if r.sent {
		if f := m.w.mutant.judge; f != nil {
			v = f(m.plan.ReplicaRank, r.ballots)
		} else {
			v = quorum.JudgeBallots(m.plan.ReplicaRank, r.ballots)
		}
		if len(v.Missing) > 0 && !broken {
			return
		}
		v = m.claim[g].Judged(v, a.key.step, a.key.q, g, r.digest)
	}
	r.voted = true
	if m.w.mutant.eager && v.Vote == quorum.VotePrepared {
		v.Vote = quorum.VoteYes
	}
	err := m.polls.Vote(quorum.RankVote{
		Attempt:   a.poll,
		GroupRank: g, QuorumID: a.key.q, Round: a.key.round, Step: a.key.step, Vote: v.Vote,
		ChangeWanted: v.ChangeWanted, Broken: broken || v.Broken, Digest: r.digest,
	})
	if err != nil {
		m.w.fail("C3", "%s: %v", m.id, err)
		return
	}
	m.tallied(a)
}

// tallied carries out what the tally says, once.
func (m *member) tallied(a *attempt) {
	res, ok, err := m.polls.Result(a.poll)
	if err != nil || !ok {
		return
	}
	m.w.check.tally(m.id, a.key, res.Outcome.String())
	if a.over {
		return
	}
	a.over = true
	m.ballots++
	m.outcome(a, res)
	if !res.Stands {
		m.breakGroup("tally: " + res.Outcome.String())
		return
	}
	m.steps = slices.DeleteFunc(m.steps, func(o *attempt) bool { return o == a })
	m.ask = res.ChangeWanted
	if m.ask {
		m.joinIfDue()
		return
	}
	m.compute()
}

func (m *member) outcome(a *attempt, res quorum.TallyResult) {
	bytes := m.bytes
	for _, r := range a.ranks {
		bytes = mix(bytes, r.sum)
	}
	switch res.Outcome {
	case quorum.TallyCommit:
		m.commit(a.key, bytes, res.Digests, m.view.members)
		m.wants = m.wants || m.plan.Heal && m.plan.ParticipantRank < 0 // it is level now
	case quorum.TallyPrepared:
		m.was, m.pend = a.key, bytes
		if m.w.mutant.breaksPromise {
			m.w.check.discard(m.id, pos{m.was.step, m.was.q}, m.pend)
			m.forEachClaim(func(_ int, c *quorum.Claim) { c.Refuse() })
		}
	case quorum.TallyBehind:
		m.passed++ // the others go on, and need its part in the exchange
	case quorum.TallyAbort:
		m.discarded = a.key
		m.forEachClaim(func(_ int, c *quorum.Claim) { c.Refuse() })
	}
}

// breakGroup ends this member's quorum: votes that are due are cast, peers are
// told, and it joins.
func (m *member) breakGroup(why string) {
	if m.in == nil || !m.stands {
		return
	}
	m.group++ // before the votes: they lead here again
	m.stands, m.ready = false, false
	for _, a := range slices.Clone(m.steps) {
		if !a.begun || a.over || a.key.q != m.in.ID {
			continue
		}
		for g := range a.ranks {
			m.judge(a, g, true)
		}
	}
	if m.w.tracing {
		m.w.note("%s leaves quorum %d: %s; prepared=%t", m.id, m.in.ID, why, m.prepared())
	}
	id := m.in.ID
	for _, o := range m.peers {
		m.w.send(m, o, func() {
			if o.in != nil && o.in.ID == id {
				o.breakGroup(m.id + " aborted")
			}
		})
	}
	if m.join != nil && m.join.Kind == quorum.JoinAsk {
		m.join = nil // the next one replaces it
	}
	m.ask, m.wants, m.again = false, false, false
	m.joinIfDue()
}

// linkBroke is a first cause: it accuses.
func (m *member) linkBroke(o *member) {
	if m.in == nil || !m.stands || !slices.Contains(m.peers, o) || m.helloOf(o) > m.in.ID {
		return
	}
	m.accuse(quorum.Accusation{By: m.rid(), Against: o.rid(), QuorumID: m.in.ID, Evidence: "link broke"})
	m.breakGroup("link to " + o.id + " broke")
}

func (m *member) accuse(a quorum.Accusation) {
	if !m.connected() {
		return
	}
	r := m.x.r
	m.x.receive(func(now time.Time) {
		r.book.accuses(now.Sub(epochStart), m.id, string(a.Against), a.QuorumID, a.Unreachable)
		if !r.w.mutant.deaf {
			_ = r.m.Accuse(now, a) // what does not fit any more is old news
		}
	})
}

// mix hashes numbers into made-up bytes.
func mix(ns ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, n := range ns {
		h = (h ^ n) * 1099511628211
		h ^= h >> 29
	}
	return h
}
