package sim

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// stepKey names one attempt at a step.
type stepKey struct{ q, round, step int64 }

// attempt is what a member knows of one attempt, whether it has begun it or
// only heard of it.
type attempt struct {
	key   stepKey
	begun bool
	over  bool
	ranks []rankStep
	tally *quorum.Tally
}

// rankStep is one group rank's part.
type rankStep struct {
	grads   map[string]uint64 // by member
	ballots []*quorum.Ballot  // by replica rank
	digest  quorum.Digest
	sum     uint64
	sent    bool
	voted   bool
}

func (m *member) attempt(k stepKey) *attempt {
	a := m.steps[k]
	if a == nil {
		a = &attempt{key: k, ranks: make([]rankStep, m.w.o.Ranks)}
		for g := range a.ranks {
			a.ranks[g].grads = map[string]uint64{}
		}
		m.steps[k] = a
	}
	return a
}

// others are the fellow members of the quorum.
func (m *member) others() []*member {
	var out []*member
	for _, o := range m.in.Members {
		if o.ReplicaID != m.rid() {
			out = append(out, m.w.member(o.ReplicaID))
		}
	}
	return out
}

// configure builds the group: everybody says hello to everybody.
func (m *member) configure() {
	m.group++
	m.ready = false
	for k := range m.steps {
		if k.q < m.in.ID {
			delete(m.steps, k)
		}
	}
	id := m.in.ID
	for _, o := range m.others() {
		m.w.send(m, o, func() { o.hello(m, id) })
	}
	m.deadline(opDeadline, "configure", func() bool { return m.ready })
	m.configured()
}

// deadline breaks the group after d, unless it is done, or another group.
func (m *member) deadline(d time.Duration, what string, done func() bool) {
	group := m.group
	m.w.after(d, func() {
		m.when(func() {
			if m.group == group && !done() {
				m.breakGroup(what + " took too long")
			}
		})
	})
}

// hello of a higher quorum breaks the one that the sender left.
func (m *member) hello(from *member, id int64) {
	m.hellos[from.id] = max(m.hellos[from.id], id)
	if m.in == nil || !m.stands || !m.has(from) {
		return
	}
	if id > m.in.ID {
		m.breakGroup(from.id + " is in a later quorum")
		return
	}
	m.configured()
}

func (m *member) has(o *member) bool {
	for _, q := range m.in.Members {
		if q.ReplicaID == o.rid() {
			return true
		}
	}
	return false
}

// configured goes on once all hellos are there.
func (m *member) configured() {
	if m.ready || !m.stands {
		return
	}
	for _, o := range m.others() {
		if m.hellos[o.id] != m.in.ID {
			return
		}
	}
	m.heal(m.group, 0)
}

// heal asks the n-th donor, or goes on.
func (m *member) heal(group, n int) {
	if m.group != group || m.ready && n > 0 {
		return
	}
	if !m.plan.Heal || m.pos == m.plan.Max || n == len(m.plan.Sources) {
		m.unhealed = m.plan.Heal && m.pos != m.plan.Max
		m.ready = true
		m.compute()
		return
	}
	donor := m.w.member(m.plan.Sources[n].ReplicaID)
	id, healed := m.in.ID, false
	m.w.send(m, donor, func() {
		if donor.in == nil || donor.in.ID != id || donor.pos != m.plan.Max {
			return // it answers nothing, and the next one is asked
		}
		pos, bytes, last := donor.pos, donor.bytes, donor.last
		m.w.send(donor, m, func() {
			if m.group != group || m.ready || m.w.unlucky(faultHeal) {
				return
			}
			healed = true
			m.pos, m.bytes, m.last = pos, bytes, last
			m.w.check.hold(m)
			m.ready = true
			m.compute()
		})
	})
	m.w.after(healDeadline/time.Duration(len(m.plan.Sources)), func() {
		m.when(func() {
			if !healed {
				m.heal(group, n+1)
			}
		})
	})
}

// compute runs forward and backward, then exchanges gradients.
func (m *member) compute() {
	if !m.stands || !m.ready || m.ask || m.join != nil {
		return
	}
	group, round := m.group, m.in.Round
	m.w.after(m.w.between(m.w.o.StepTime/2, m.w.o.StepTime), func() {
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
		step = m.plan.Max.Step + 1
	}
	k := stepKey{m.in.ID, m.in.Round, step}
	a := m.attempt(k)
	if a.begun {
		return
	}
	a.begun, a.tally = true, quorum.NewTally(m.w.o.Ranks)
	for g := range a.ranks {
		grad := uint64(0) // the identity, of one that does not participate
		if m.plan.ParticipantRank >= 0 && !m.unhealed {
			grad = m.w.rng.Uint64()
		}
		for _, o := range m.others() {
			m.w.send(m, o, func() { o.gradient(m, k, g, grad) })
		}
		a.ranks[g].grads[m.id] = grad
	}
	m.deadline(opDeadline, "step", func() bool { return a.over })
	for g := range a.ranks {
		m.reduce(a, g)
	}
}

// gradient takes a frame. One of a higher round ends the lower one.
func (m *member) gradient(from *member, k stepKey, g int, grad uint64) {
	if m.in != nil && k.q < m.in.ID {
		return
	}
	a := m.attempt(k)
	a.ranks[g].grads[from.id] = grad
	if m.in != nil && k.q == m.in.ID && k.round > m.in.Round && m.stands && m.join == nil {
		m.breakGroup(from.id + " is in a later round")
		return
	}
	m.reduce(a, g)
}

// reduce folds a rank's gradients once all are there, and ballots.
func (m *member) reduce(a *attempt, g int) {
	r := &a.ranks[g]
	if !a.begun || a.over || r.sent || len(r.grads) < len(m.in.Members) {
		return
	}
	r.sum = mix(uint64(a.key.q), uint64(a.key.round), uint64(a.key.step), uint64(g))
	for _, o := range m.in.Members {
		r.sum = mix(r.sum, r.grads[string(o.ReplicaID)])
	}
	if m.w.unlucky(faultOdd) {
		m.w.note("%s reduces rank %d of %v oddly", m.id, g, a.key)
		r.sum++
	}
	r.sent = true
	r.digest = quorum.Digest{Valid: true, Sum: uint32(r.sum)}
	fine := !m.w.unlucky(faultCheck)
	b := &quorum.Ballot{
		QuorumID: a.key.q, Round: a.key.round, Position: m.pos, OK: fine && !m.unhealed, Reduced: fine,
		Healed: m.plan.Heal && !m.unhealed && m.pos == m.plan.Max, Unhealed: m.unhealed,
		ChangeWanted: m.wants || m.unhealed, Digest: r.digest,
	}
	m.ballot(a.key, g, m.plan.ReplicaRank, b)
	rank := m.plan.ReplicaRank
	for _, o := range m.others() {
		m.w.send(m, o, func() { o.ballot(a.key, g, rank, b) })
	}
}

// ballot takes one ballot, and votes when all are there or one is a no.
func (m *member) ballot(k stepKey, g, rank int, b *quorum.Ballot) {
	if m.in != nil && k.q < m.in.ID {
		return
	}
	a := m.attempt(k)
	r := &a.ranks[g]
	for len(r.ballots) <= rank {
		r.ballots = append(r.ballots, nil)
	}
	r.ballots[rank] = b
	m.judge(a, g, false)
}

// judge votes, if there is something to say. Broken says that no more ballots
// will come.
func (m *member) judge(a *attempt, g int, broken bool) {
	r := &a.ranks[g]
	if !a.begun || a.over || r.voted || !r.sent && !broken {
		return
	}
	v := quorum.Verdict{Vote: quorum.VoteNo}
	if r.sent {
		all := make([]*quorum.Ballot, len(m.in.Members))
		copy(all, r.ballots)
		v = quorum.JudgeBallots(m.plan.ReplicaRank, all)
		if len(v.Missing) > 0 && v.Vote != quorum.VoteNo && !broken {
			return
		}
	}
	r.voted = true
	err := a.tally.Vote(quorum.RankVote{
		GroupRank: g, QuorumID: a.key.q, Round: a.key.round, Step: a.key.step, Vote: v.Vote,
		ChangeWanted: v.ChangeWanted, Broken: broken || v.Vote == quorum.VoteNo, Digest: r.digest,
	})
	if err != nil {
		m.w.fail("C3", "%s: %v", m.id, err)
		return
	}
	m.tallied(a)
}

// tallied carries out what the tally says, once.
func (m *member) tallied(a *attempt) {
	res := a.tally.Result()
	if a.over || res.Outcome == quorum.TallyPending {
		return
	}
	a.over = true
	m.ballots++
	bytes := m.bytes
	for _, r := range a.ranks {
		bytes = mix(bytes, r.sum)
	}
	f := quorum.Fact{Step: a.key.step, QuorumID: a.key.q}
	switch res.Outcome {
	case quorum.TallyCommit:
		m.commit(a.key, bytes, res.Digests)
		m.wants = m.wants || m.plan.Heal && m.plan.ParticipantRank < 0 // it is level now
	case quorum.TallyPrepared:
		f.Kind, f.Digests = quorum.Prepared, res.Digests
		m.fact, m.pend = f, bytes
	case quorum.TallyBehind:
		f.Kind = quorum.GaveUp
		m.fact = f
	case quorum.TallyAbort:
		f.Kind = quorum.Refused
		m.fact = f
	}
	if !res.Stands {
		m.breakGroup("tally: " + res.Outcome.String())
		return
	}
	delete(m.steps, a.key)
	m.ask = res.ChangeWanted
	if m.ask {
		m.joinIfDue()
		return
	}
	m.compute()
}

// breakGroup ends this member's quorum: votes that are due are cast, peers are
// told, and it joins.
func (m *member) breakGroup(why string) {
	if m.in == nil || !m.stands {
		return
	}
	m.group++ // before the votes: they lead here again
	asked := m.join != nil || m.ask
	m.stands, m.ready = false, false
	begun := false
	for _, a := range m.steps {
		if !a.begun || a.over || a.key.q != m.in.ID {
			continue
		}
		begun = true
		for g := range a.ranks {
			m.judge(a, g, true)
		}
	}
	if !begun && !asked && m.fact.Kind == quorum.NoFact && !m.unhealed {
		m.fact = quorum.Fact{Kind: quorum.Refused, Step: m.pos.Step + 1, QuorumID: m.in.ID}
	}
	m.w.note("%s leaves quorum %d: %s; %v", m.id, m.in.ID, why, m.fact)
	id := m.in.ID
	for _, o := range m.others() {
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
	if m.in == nil || !m.stands || !m.has(o) || m.hellos[o.id] > m.in.ID {
		return
	}
	a := quorum.Accusation{By: m.rid(), Against: o.rid(), QuorumID: m.in.ID, Evidence: "link broke"}
	if m.connected() {
		m.w.lh.receive(m.x, func() error { return m.w.lh.m.Accuse(m.w.now, a) })
	}
	m.breakGroup("link to " + o.id + " broke")
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
