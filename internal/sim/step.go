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
	poll  uint64 // its number at the ranks and in the member's polls
	begun bool
	over  bool
	ranks []rankStep

	missing bool // its votes ended without all
}

// rankStep is one group rank's part. Lists are by replica rank.
type rankStep struct {
	grads   []uint64
	there   int // gradients that came
	ballots []*quorum.Ballot
	came    int
	digest  quorum.Digest
	sum     uint64
	lines   []int // of those who told a state with their ballot; -1: none
	sent    bool
	voted   bool
	vote    quorum.RankVote
	lost    bool // the vote was
}

// stepMessage is what a member sends to all others in a step: its gradients, of
// every group rank, or one group rank's ballot.
type stepMessage struct {
	from  *member
	rank  int // replica rank
	size  int // of the quorum
	key   stepName
	odd   bool // gradients of another collective
	grads []uint64
	g     int
	vote  *quorum.Ballot
	line  int // with a ballot that tells a state: the sender's
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
		a.ranks[g].lines = slices.Repeat([]int{noLine}, size)
	}
	m.steps = append(m.steps, a)
	return a
}

// receive takes a step's message. One of a higher round ends the lower one.
func (m *member) receive(s *stepMessage) {
	if m.in() != nil && s.key.q < m.in().ID {
		return
	}
	if m.mismatches(s) {
		return
	}
	a := m.attempt(s.key, s.size)
	if s.rank >= len(a.ranks[0].grads) {
		return // an id with two lists: the checkers say so
	}
	if s.vote != nil {
		m.ballot(a, s.g, s.rank, s.vote, s.line)
		return
	}
	for g, grad := range s.grads {
		a.ranks[g].put(s.rank, grad)
	}
	if m.in() != nil && s.key.q == m.in().ID && s.key.round > m.in().Round && m.stands() && m.join == nil {
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
	m.steps = slices.DeleteFunc(m.steps, func(a *attempt) bool { return a.key.q < m.in().ID })
	m.peers = m.peers[:0]
	for _, o := range m.in().Members {
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
	if m.in() == nil || !m.stands() || !slices.Contains(m.peers, from) {
		return
	}
	if id > m.in().ID {
		m.breakGroup(from.id + " is in a later quorum")
		return
	}
	m.configured()
}

// configured goes on once all hellos are there.
func (m *member) configured() {
	if m.first().Grouped() || !m.stands() {
		return
	}
	for _, o := range m.peers {
		if m.helloOf(o) != m.in().ID {
			return
		}
	}
	m.probing = slices.DeleteFunc(m.probing, func(o *member) bool { return slices.Contains(m.peers, o) })
	m.each((*quorum.Rank).Configured)
	m.heal(m.group, 0)
}

// fulfilled goes on with the group that the ranks wished for.
func (m *member) fulfilled() {
	m.ready = true
	if m.each((*quorum.Rank).Fulfil) {
		m.each(func(r *quorum.Rank) bool { r.Started(); return true })
		m.compute()
	}
}

// healed takes over the state of the quorum.
func (m *member) healed(bytes uint64, line int, digests []quorum.Digest) {
	m.bytes, m.line = bytes, line
	for g := range m.ranks {
		m.ranks[g].Healed(m.plan.Max, 0, digests[g])
	}
	if m.pos().Step > 0 {
		m.w.check.hold(m.id, place(m.pos()), m.bytes)
	}
	m.fulfilled()
}

// digests are those of the last committed step, by group rank.
func (m *member) digests() []quorum.Digest {
	d := make([]quorum.Digest, len(m.ranks))
	for g := range m.ranks {
		d[g] = m.ranks[g].Digest()
	}
	return d
}

// heal asks the n-th donor, or goes on.
func (m *member) heal(group, n int) {
	if m.group != group || m.ready && n > 0 {
		return
	}
	if !m.first().Behind() || n == len(m.plan.Sources) {
		m.fulfilled()
		return
	}
	if m.failsToHeal() {
		return
	}
	donor := m.w.byID[m.plan.Sources[n].ReplicaID]
	id, healed := m.in().ID, false
	m.w.send(m, donor, func() {
		if donor.in() == nil || donor.in().ID != id || donor.pos() != m.plan.Max && !m.w.mutant.anyDonor {
			return // it answers nothing, and the next one is asked
		}
		bytes, line, last := donor.bytes, donor.line, donor.digests()
		m.w.send(donor, m, func() {
			if m.group != group || m.ready || m.strikes(FaultHeal) {
				return
			}
			healed = true
			m.healed(bytes, line, last)
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
	if !m.first().Usable() {
		return
	}
	group, round := m.group, m.in().Round
	took := m.w.between(m.w.o.StepTime/2, m.w.o.StepTime) + m.ails.slow
	if m.slow > m.w.now {
		took *= slowdown
	}
	m.w.at(m.w.now+int64(took), func() {
		m.when(func() {
			if m.group == group && m.first().Usable() && m.in().Round == round {
				m.exchange()
			}
		})
	})
}

// exchange sends this member's gradients of every group rank to everybody.
func (m *member) exchange() {
	if m.hang(false) {
		return
	}
	step, unhealed := m.pos().Step+1, m.first().Behind()
	if unhealed {
		step = m.plan.Max.Step + 1 + m.passed
	}
	k := stepName{m.in().ID, m.in().Round, step, 0}
	if last := m.discarded; last.q == k.q && last.round == k.round && last.step == k.step {
		k.try = last.try + 1
	}
	a := m.attempt(k, len(m.in().Members))
	if a.begun {
		return
	}
	beside := m.plan.Heal && m.plan.ParticipantRank < 0 && m.pos() == m.plan.Max
	if !beside {
		m.flip()
	}
	m.each(func(r *quorum.Rank) bool {
		r.Begin()
		if _, at, ok := r.Compares(); ok {
			r.Rested(at, quorum.Digest{Valid: true, Sum: uint32(m.bytes ^ m.bytes>>32)})
		}
		r.Issue()
		r.Close()
		return beside && r.HealedBeside()
	})
	a.begun = true
	a.poll, _ = m.first().Attempt()
	m.w.attempted(k)
	grads := make([]uint64, len(a.ranks)) // the identity, of one that does not participate
	for g := range grads {
		if m.plan.ParticipantRank >= 0 && !unhealed {
			grads[g] = m.w.rng.Uint64() >> 1
		}
		a.ranks[g].put(m.plan.ReplicaRank, grads[g])
	}
	m.sendStep(&stepMessage{from: m, size: len(m.in().Members), rank: m.plan.ReplicaRank, key: k, odd: m.ails.odd, grads: grads})
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
	if !a.begun || a.over || r.sent || r.there < len(m.in().Members) || m.hang(true) {
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
	if !fine {
		m.ranks[g].Fail()
	}
	own := m.ranks[g].Ballot(m.ranks[g].Behind())
	m.ranks[g].Seal(own)
	if f := m.w.mutant.onBallot; f != nil {
		f(&own)
	}
	b := &own
	b.Digest = r.digest
	if b.OK {
		m.was = a.key
	}
	m.w.check.ballots(m.id, a.key, g, fine)
	rank, line := m.plan.ReplicaRank, noLine
	if !m.ranks[g].Behind() && !b.Healed {
		line = m.line
	}
	m.sendStep(&stepMessage{from: m, size: len(m.in().Members), rank: rank, key: a.key, g: g, vote: b, line: line})
	m.ballot(a, g, rank, b, line)
}

// told are the lines of those who told a state, as far as they are at one position.
func (r *rankStep) told() []int {
	lines, first := slices.Clone(r.lines), -1
	for rank, b := range r.ballots {
		switch {
		case lines[rank] == noLine:
		case first < 0:
			first = rank
		case b.Position != r.ballots[first].Position:
			lines[rank] = noLine
		}
	}
	return lines
}

// ballot takes one ballot, and votes when all are there.
func (m *member) ballot(a *attempt, g, rank int, b *quorum.Ballot, line int) {
	r := &a.ranks[g]
	if r.ballots[rank] == nil {
		r.came++
	}
	r.ballots[rank], r.lines[rank] = b, line
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
	yes := false
	if r.sent {
		judge := quorum.JudgeBallots
		if f := m.w.mutant.judge; f != nil {
			judge = f
		}
		v := judge(m.plan.ReplicaRank, r.ballots)
		if len(v.Missing) > 0 && !broken {
			return
		}
		m.w.check.named(m.id, a.key, r.told(), v.Differ)
		r.vote, v = m.ranks[g].Judged(v, r.digest, broken)
		yes = v.Yes()
	} else {
		r.vote = m.ranks[g].WithoutGroup()
	}
	r.voted = true
	m.ranks[g].Voted()
	if f := m.w.mutant.onVote; f != nil {
		f(&r.vote)
	}
	if len(m.ranks) > 1 && (m.strikes(FaultVote) || !yes && m.strikes(FaultNo)) {
		m.w.note("the vote of %s's rank %d on %v is lost", m.id, g, a.key)
		r.lost = true
		m.deadline(voteDeadline, "vote", func() bool { return a.over })
		return
	}
	if err := m.polls.Vote(r.vote); err != nil {
		m.w.fail("C3", "%s: %v", m.id, err)
		return
	}
	m.tallied(a)
}

// endVotes has the ranks do without the votes that were lost: one whose vote came
// waits no longer, or else the first one makes its call again.
func (m *member) endVotes(a *attempt) {
	if a.over {
		return
	}
	a.missing = true
	last := max(0, slices.IndexFunc(a.ranks, func(r rankStep) bool { return !r.lost }))
	v := a.ranks[last].vote
	v.Last = true
	if err := m.polls.Vote(v); err != nil {
		m.w.fail("C3", "%s: %v", m.id, err)
		return
	}
	m.tallied(a)
}

// tallied carries out what the tally says, once.
func (m *member) tallied(a *attempt) {
	res, ok := m.polls.Result(a.poll)
	if !ok {
		return
	}
	m.w.check.tally(m.id, a.key, res.Outcome.String())
	if a.over {
		return
	}
	a.over = true
	m.moves++
	asks := m.outcome(a, res)
	if !res.Stands {
		m.breakGroup("tally: " + res.Outcome.String())
		return
	}
	m.steps = slices.DeleteFunc(m.steps, func(o *attempt) bool { return o == a })
	if asks && !m.w.mutant.neverAsks && m.each((*quorum.Rank).Ask) {
		m.joinIfDue()
		return
	}
	m.compute()
}

// outcome has every rank do what the tally says. It says whether they ask.
func (m *member) outcome(a *attempt, res quorum.TallyResult) (asks bool) {
	bytes, did, promised := m.bytes, quorum.Resolution{}, m.prepared()
	f := m.w.mutant.onTally
	if m.w.mutant.noMissing && a.missing {
		res = quorum.TallyResult{Outcome: quorum.TallyCommit, Digests: m.digests()}
	}
	for g, r := range a.ranks {
		bytes = mix(bytes, r.sum)
		told := res
		if f != nil {
			f(&told, r.vote)
		}
		did = m.ranks[g].Resolve(told, r.vote)
		asks = !did.Awaits && m.ranks[g].End(did).Asks || asks
	}
	switch {
	case did.Commit:
		m.w.check.mixed(m.id, a.key, a.ranks[0].lines)
		m.committed(a.key, bytes, m.view.members)
	case did.Awaits:
		m.was, m.pend = a.key, bytes
	case m.first().Behind():
		m.passed++ // the others go on, and need its part in the exchange
	default:
		m.discarded = a.key
		if promised {
			m.w.check.discard(m.id, pos{a.key.step, a.key.q}, bytes)
		}
	}
	return asks
}

// breakGroup ends this member's quorum: votes that are due are cast, peers are
// told, and it joins.
func (m *member) breakGroup(why string) {
	if m.in() == nil || !m.stands() {
		return
	}
	m.group++ // before the votes: they lead here again
	m.ready = false
	m.each(func(r *quorum.Rank) bool { return r.Fall(m.in().ID) })
	for _, a := range slices.Clone(m.steps) {
		if !a.begun || a.over || a.key.q != m.in().ID {
			continue
		}
		for g := range a.ranks {
			m.judge(a, g, true)
		}
		m.endVotes(a)
	}
	if m.w.tracing {
		m.w.note("%s leaves quorum %d: %s; prepared=%t", m.id, m.in().ID, why, m.prepared())
	}
	id := m.in().ID
	for _, o := range m.peers {
		m.w.send(m, o, func() {
			if o.in() != nil && o.in().ID == id {
				o.breakGroup(m.id + " aborted")
			}
		})
	}
	if m.join != nil && m.join.Kind == quorum.JoinAsk {
		m.join = nil // the next one replaces it
	}
	m.joinIfDue()
}

// linkBroke is a first cause: it accuses.
func (m *member) linkBroke(o *member) {
	if m.in() == nil || !m.stands() || !slices.Contains(m.peers, o) || m.helloOf(o) > m.in().ID {
		return
	}
	m.accuse(quorum.Accusation{By: m.rid(), Against: o.rid(), QuorumID: m.in().ID, Evidence: "link broke"})
	m.breakGroup("link to " + o.id + " broke")
}

func (m *member) accuse(a quorum.Accusation) {
	if !m.connected() {
		return
	}
	r := m.x.r
	m.x.receive(func(now time.Time) {
		if a.Kind == quorum.AccusedLink {
			r.book.accuses(now.Sub(epochStart), m.id, string(a.Against), a.QuorumID, a.Unreachable)
		}
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
