package sim

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// hub is what a replica's server knows, as manager's does: it gathers the ranks'
// reports into one join, and their votes into one decision.
type hub struct {
	polls       *quorum.Polls
	pending     []*quorum.RankReport // by group rank; nil: none
	newest      *quorum.Quorum
	answered    uint64 // the attempt whose reports newest answered
	voidAttempt uint64 // the newest attempt that is void for all
	away        []bool // by group rank: its trainer does not move
	calls       []call // by group rank: its vote, which waits for the decision
	join        *quorum.Join
	next        uint64
	lines       [2][]int64 // to the server, and from it, by group rank: nothing arrives before what was sent earlier
	forced      uint64     // the newest attempt that was decided without all votes
	polled      [2]uint64  // the newest attempts voted on, which the polls know
	pings       bool       // asks whether the lighthouse is there, after an ask that went unanswered
}

// call is a vote that waits.
type call struct {
	waits bool
	vote  quorum.RankVote
}

// reply is what a report gets.
type reply struct {
	q           *quorum.Quorum
	voidAttempt uint64 // with q: the newest one that is void for all ranks
	attempt     uint64 // of the report
	withdrawn   bool
	first       bool   // it votes first
	next        uint64 // the attempt in which the siblings are, or which they begin next
}

func newHub(ranks int) hub {
	return hub{
		polls: quorum.NewPolls(ranks), pending: make([]*quorum.RankReport, ranks), next: 1,
		away: make([]bool, ranks), calls: make([]call, ranks), lines: [2][]int64{make([]int64, ranks), make([]int64, ranks)},
	}
}

func (h *hub) isAway() bool { return slices.Contains(h.away, true) }

// mutedTimeouts is after how many heartbeat timeouts the lighthouse is asked whether it is there.
const mutedTimeouts = 10

// Times of a call between a replica's ranks.
const (
	callMin = 20 * time.Microsecond
	callMax = 400 * time.Microsecond
)

// toServer carries a call of a rank to its replica's server; rank 0 is in its process.
func (m *member) toServer(g int, do func()) {
	if g == 0 {
		do()
		return
	}
	m.carry(0, g, do)
}

// toRank carries a word of the server to a rank. Rank 0 has it at once, though not
// within the call that led to it.
func (m *member) toRank(g int, do func()) {
	if g == 0 {
		m.soon(do)
		return
	}
	m.carry(1, g, do)
}

// soon does something at once, though not within what led to it.
func (m *member) soon(do func()) { m.w.at(m.w.now, func() { m.when(do) }) }

func (m *member) carry(way, g int, do func()) {
	at := &m.hub.lines[way][g]
	*at = max(*at, m.w.now+int64(m.w.between(callMin, callMax)))
	m.w.at(*at, func() { m.when(do) })
}

// report takes in a rank's report.
func (m *member) report(g int, p *quorum.RankReport) {
	h := &m.hub
	h.away[g] = false
	if next, restarted := h.polls.Restarted(g, p.Attempt); restarted {
		m.replies(g, p, reply{first: true, next: next})
		return
	}
	if rep, ok := h.known(p); ok {
		m.replies(g, p, rep)
		return
	}
	h.pending[g] = p
	if p.Kind == quorum.JoinFall {
		m.tellSiblings(g, p.HaveQuorumID)
	}
	m.voteFirst()
	m.gather()
}

// takeBack takes a rank's report back, unless it was answered.
func (m *member) takeBack(g int, p *quorum.RankReport) {
	h := &m.hub
	if h.pending[g] == p {
		h.pending[g] = nil
		m.gather()
	}
	rep, ok := h.known(p)
	if !ok {
		rep = reply{withdrawn: true}
	}
	m.replies(g, p, rep)
}

// known is the reply to a report which can be given at once: an answer that the rank
// has not had.
func (h *hub) known(p *quorum.RankReport) (reply, bool) {
	q := h.newest
	if q == nil {
		return reply{}, false
	}
	if !p.Has(q) || p.Kind == quorum.JoinAsk && h.answered == p.Attempt {
		return reply{q: q, voidAttempt: h.voidAttempt}, true
	}
	return reply{}, false
}

func (m *member) replies(g int, p *quorum.RankReport, rep reply) {
	rep.attempt = p.Attempt
	if rep.q != nil {
		rep.next = m.hub.polls.Next(g)
	}
	m.toRank(g, func() { m.ranks[g].replied(p, rep) })
}

// voteFirst replies to the ranks that report though their siblings wait for their
// vote, or have gone on without it.
func (m *member) voteFirst() {
	if len(m.ranks) == 1 || m.w.mutant.noCatchUp {
		return
	}
	h := &m.hub
	for g, p := range h.pending {
		if p == nil {
			continue
		}
		if next, awaits := h.polls.Awaits(*p); awaits {
			h.pending[g] = nil
			m.replies(g, p, reply{first: true, next: next})
			m.gather()
		}
	}
}

// tellSiblings has the other ranks abort, and report too.
func (m *member) tellSiblings(g int, id int64) {
	if id == 0 {
		return
	}
	for _, r := range m.ranks {
		if r.g != g {
			m.toRank(r.g, func() {
				r.onNotice(quorum.Notice{Kind: quorum.NoticeSibling, QuorumID: id, Reason: "a sibling's is over"})
			})
		}
	}
}

// gather joins when all ranks have reported, and takes a join back whose reports are
// no more.
func (m *member) gather() {
	if m.hub.join != nil {
		m.withdraw()
	}
	if !slices.Contains(m.hub.pending, nil) {
		m.newJoin()
	}
}

func (m *member) newJoin() {
	h := &m.hub
	self := quorum.Member{ReplicaID: m.rid(), Address: m.name, StoreAddress: m.name, GroupWorldSize: m.w.o.Ranks}
	reports := make([]quorum.RankReport, len(m.ranks))
	for g, p := range h.pending {
		reports[g] = *p
		if f := m.w.mutant.onReport; f != nil {
			f(&reports[g])
		}
	}
	j, err := quorum.MergeReports(self, reports)
	if err != nil {
		m.w.fail("join", "%s: %v", m.id, err)
		return
	}
	if f := m.w.mutant.onMerge; f != nil {
		f(&j, reports[0])
	}
	j.Number, j.Last = h.next, m.first().LastAnswer()
	h.next++
	h.join = &j
	if m.connected() {
		m.send()
	}
	if j.Kind == quorum.JoinAsk {
		m.after(m.w.o.config().HeartbeatTimeout, func() { m.unanswered(j.Number) })
	}
}

// send delivers the outstanding join; after a new session, again.
func (m *member) send() {
	j := *m.hub.join
	if m.w.tracing {
		m.w.note("%s joins #%d %v at %v torn=%t, %v", m.id, j.Number, j.Kind, j.Member.Position, j.Member.Torn, j.Fact)
	}
	heard := j
	if f := m.w.mutant.onJoin; f != nil {
		f(&heard)
	}
	if m.w.mutant.deaf {
		heard.Accusations = nil
	}
	m.tell(func(r *leadership, now time.Time) {
		for _, a := range heard.Accusations {
			if a.Kind == quorum.AccusedLink {
				r.book.Accused(now.Sub(epochStart), m.id, string(a.Against), a.QuorumID, a.Unreachable)
			}
		}
		if err := r.m.Join(now, heard); err != nil {
			if x := r.sessions[m.id]; x != nil {
				x.push(func(m *member) {
					if m.hub.join != nil && m.hub.join.Number == j.Number {
						m.refused(err)
					}
				})
			}
			return
		}
		r.joins[j.Member.ReplicaID] = heard
		r.told()
		r.book.Joined(now.Sub(epochStart), &j)
	})
}

// unanswered withdraws an ask after a heartbeat timeout; training goes on.
func (m *member) unanswered(number uint64) {
	if m.hub.join == nil || m.hub.join.Number != number {
		return
	}
	m.withdraw()
	for g, p := range m.hub.pending {
		m.hub.pending[g] = nil
		m.replies(g, p, reply{})
	}
	m.ping()
}

// ping finds out, after an ask that went unanswered, when the lighthouse answers again, though it
// says nothing by itself. (A replica that had healed was told nothing more, and took part no more.)
func (m *member) ping() {
	if m.hub.pings {
		return
	}
	m.hub.pings = true
	m.after(mutedTimeouts*m.w.o.config().HeartbeatTimeout, func() {
		m.hub.pings = false
		x := m.x
		if !m.connected() || x.r.over {
			m.ping()
			return
		}
		x.receive(func(time.Time) { x.push((*member).heard) })
	})
}

func (m *member) withdraw() {
	number := m.hub.join.Number
	m.hub.join = nil
	m.tell(func(r *leadership, now time.Time) {
		r.m.Withdraw(now, m.rid(), number)
		r.book.Withdrew(m.id, number)
	})
}

// answered gives an answer to the ranks, or refuses that of a join which is no more.
func (m *member) answered(q *quorum.Quorum, number uint64) {
	m.heard()
	h := &m.hub
	if h.join == nil || h.join.Number != number {
		return
	}
	h.join, h.newest, h.answered = nil, q, h.pending[0].Attempt
	for _, p := range h.pending {
		if p.Void {
			h.voidAttempt = max(h.voidAttempt, p.Attempt)
		}
	}
	for g, p := range h.pending {
		h.pending[g] = nil
		m.replies(g, p, reply{q: q, voidAttempt: h.voidAttempt})
	}
}

// voted counts a rank's vote, which waits for the decision.
func (m *member) voted(v quorum.RankVote) {
	h := &m.hub
	if v.Broken {
		m.tellSiblings(v.GroupRank, v.QuorumID)
	}
	if _, ok := h.polls.Result(v.Attempt); !ok && v.Last {
		h.forced = v.Attempt
	}
	if err := h.polls.Vote(v); err != nil {
		m.w.fail("C3", "%s: %v", m.id, err)
		return
	}
	if v.Attempt > h.polled[0] {
		h.polled = [2]uint64{v.Attempt, h.polled[0]}
	}
	h.calls[v.GroupRank] = call{true, v}
	m.voteFirst()
	m.decisions()
}

// decisions tells ranks that wait what their attempts came to.
func (m *member) decisions() {
	h := &m.hub
	for g, c := range h.calls {
		if !c.waits {
			continue
		}
		res, ok := h.polls.ResultFor(c.vote)
		if !ok {
			continue
		}
		if one, _ := h.polls.Result(c.vote.Attempt); slices.Contains(h.polled[:], c.vote.Attempt) {
			m.w.check.Tallied(m.id, c.vote.Attempt, one.Outcome.String())
		}
		if m.w.mutant.noMissing && h.forced == c.vote.Attempt {
			res = quorum.TallyResult{Outcome: quorum.TallyCommit, Digests: make([]quorum.Digest, len(m.ranks))}
		}
		h.calls[g] = call{}
		m.toRank(g, func() { m.ranks[g].decided(c.vote.Attempt, res) })
	}
}
