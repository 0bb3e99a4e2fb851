package quorum

import (
	"fmt"
	"slices"
	"time"
)

// Decide says whether the next quorum can be formed now, and which, or why not
// yet. It only reads, as things stand at now: where time has passed that Advance
// was not told of, it looks at a copy. Form makes a ready decision so.
func (m *Machine) Decide(now time.Time) Decision {
	m = m.advancedTo(now)
	// The budget comes last: a pause is due only where a quorum would be formed (§6a).
	if m.client == KindTorchft {
		return m.budget.within(now, m.decideTorchft(now))
	}
	// First those who only lack the last answer: they need no other quorum, so no window and no
	// majority is asked.
	if d, ok := m.decideRepeat(); ok {
		return d
	}
	return m.budget.within(now, m.decideSkerry(now))
}

func notYet(code ReasonCode, format string, args ...any) Decision {
	return Decision{Reason: Reason{code, fmt.Sprintf(format, args...)}}
}

// entered says that the join's sender has had the last answer, or a message of
// its quorum: it runs, or ran, there. As long as one member has not, nothing can commit
// in the last quorum (§4.2), for that takes the ballots of all.
func (m *Machine) entered(r *replica) bool {
	w, id := r.join, m.last.ID
	return !w.Last.ref().less(m.last.ref()) || w.Fact.QuorumID == id || w.Member.Position.QuorumID == id
}

// lastHeals says that a member is to heal in the last quorum: what it has given up weighs
// nothing, and the answer is what it needs.
func (m *Machine) lastHeals(id ReplicaID) bool {
	rank, _ := memberRank(m.last.Members, id)
	return planHeals(m.last).heals(rank)
}

// repeats says that a member's join is answered by the last answer, which it has
// not had: it was lost on its way, or its leader died. Only while that quorum
// stands, and only if the member claims nothing that is not settled: one that
// went on in its old quorum, because nobody had the answer, has news.
//
//	it has the last answer                       no: it needs another quorum
//	it has an older one, and was in the last     no: what it says of that is news
//	it has an earlier round, and fell            no: its group is broken, the id is used (§4.7)
//	its step is not settled, and may be          no: first what became of that (C5)
//	committed
//	it is not where the answer has it            no: it would give, or heal from, other bytes (C1)
//	else                                         yes
func (m *Machine) repeats(r *replica) bool {
	if m.last == nil || m.fallen || !r.member || r.join == nil || m.client != KindSkerry || !m.tellable() {
		return false
	}
	w := r.join
	have := w.Last.ref()
	// One that has the answer needs another. One whose fact or position is of the last
	// quorum has been in it, whatever answer it names: what it says is news.
	if !have.less(m.last.ref()) || m.entered(r) && have.id != m.last.ID {
		return false
	}
	if have.id == m.last.ID && w.Kind == JoinFall {
		return false // §4.7: its group of that id is broken, and a prefix is used once
	}
	// A fact about a step that is not settled is news, for a settlement (§4.6): answered
	// again, its sender would discard a step that the settlement rolls forward (C5). A
	// member that refused the step knows that it was committed nowhere.
	known := w.Fact.Kind == NoFact || w.Fact.Kind == Refused || w.Fact.Kind == GaveUp && m.lastHeals(r.id)
	if !known && findSettled(m.ledger.Settled, w.Fact.Step, w.Fact.QuorumID) == nil {
		return false
	}
	// One that stands elsewhere than the answer says has committed, or lost its state,
	// since: by that answer it would give, or heal from, other bytes (C1).
	rank, _ := memberRank(m.last.Members, r.id)
	then := m.last.Members[rank]
	return m.positionAfter(r, nil) == then.Position && w.Member.Torn == then.Torn && w.Member.Differs == then.Differs
}

// decideRepeat answers those again who have not had the last answer, and tells
// those who drain, and joined while it was being written, that they are out.
func (m *Machine) decideRepeat() (Decision, bool) {
	// A quorum that fell is not told again (§4.4): its groups are broken, or will be.
	if m.last == nil || m.fallen || m.pending == 0 {
		return Decision{}, false
	}
	d := Decision{Ready: true, Quorum: *m.last}
	for _, r := range m.order {
		if r.present() && !r.join.held && (m.repeats(r) || r.outgoing()) {
			d.Answers = append(d.Answers, Answered{r.id, r.join.Number})
		}
	}
	if len(d.Answers) == 0 {
		return Decision{}, false
	}
	d.Reason = Reason{ReasonRepeat, fmt.Sprintf("quorum %d round %d", m.last.ID, m.last.Round)}
	return d, true
}

// decideSkerry is PROTOCOL §4.8, in its order: the first case that holds names the
// reason. Who can be in the quorum comes before when (the window), and both before what
// it says of the step that was cut short: what is settled is settled once (C6), so it is
// looked at only when the quorum can be formed.
//
//	candidates    joined, live, and not held                                     Q4
//	eligible      less those on probation, if the quorum stands; less the        L1
//	              refused; under shrink-only less the newcomers
//	enough        min_replicas                                                   Q3
//	hasMajority   more than half of the live, or the whole last quorum           Q5
//	connected     less those that a bad link parts from others; enough again     Q9
//	windowEnds    all have come that can, or the join timeout has passed         Q6, Q8
//	choose        MaxReplicas of them, one of whom holds the highest position    Q10
//	settle        what became of the step; or who may know it is waited for      C5, C6
//	build         the answer, with its id and round                              Q1, Q2
func (m *Machine) decideSkerry(now time.Time) Decision {
	v := m.survey()
	kind := m.window(v)
	switch {
	case kind == windowFirst && m.gather != nil:
		// §4.3: the ledger was lost. Until its members have told who they are, joiners
		// would be taken for all there is, and form a quorum at step 0 beside them (Q10).
		return notYet(ReasonQuiet, "%d of %d members of quorum %d have told that they are in it",
			m.gather.n, m.gather.world, m.gather.ref.id)
	case kind == windowClosed:
		// §4.4: otherwise a crowd of joiners outvotes a quorum that is training.
		return notYet(ReasonStands, "quorum %d stands%s", m.last.ID, outsiders(v))
	case kind == windowAsk && v.notAsked.n > 0:
		// §3.2, §4.4: an ask ends nothing. Those that have not asked train on, and would
		// wait for the ballots of those who were taken out of their quorum.
		return notYet(ReasonMembers, "not asked yet: %v", &v.notAsked)
	case v.joined == 0 && v.held.n > 0:
		// All who joined wait for an older incarnation of their names to fall silent: soon
		// they count, or are refused.
		return Decision{Reason: waitingFor(v, nil)}
	case v.joined == 0:
		return notYet(ReasonNobody, "%s", m.fell.String())
	}
	// §4.4, §6: members that the lighthouse cannot tell of the quorum would be waited for
	// in it, or be left out while they train.
	if unseen := m.unseen(now); unseen.n > 0 {
		return notYet(ReasonDoubt, "not heard: %v", &unseen)
	}
	eligible, d, ok := m.quorate(now, kind, v, nil)
	if !ok {
		if v.held.n > 0 {
			return Decision{Reason: waitingFor(v, nil)}
		}
		return d
	}
	why, closed := m.windowEnds(now, kind, v)
	if !closed {
		return Decision{Reason: why}
	}
	// Q10 is asked with the positions after settlement: a member that rolls forward holds
	// the highest one, though it joined below it.
	s := m.settle()
	chosen, reason := m.choose(eligible, s)
	if holder, _ := m.holder(s); holder != nil && (chosen == nil && holder.candidate() || stays(holder, chosen)) {
		// Q9 or a refusal put the only holder out, or it drains (Q10, §4.5): it stays, and
		// those that cannot reach it go instead. Without it the others would begin again at
		// an older step, or wait for it for ever.
		if eligible, d, ok = m.quorate(now, kind, v, holder); !ok {
			return d
		}
		chosen, reason = m.choose(eligible, s)
	}
	if chosen == nil {
		return Decision{Reason: reason}
	}
	// C5: of those who joined none knows what became of the step; a live member may have
	// committed it, and a discard would lose that.
	if len(s.wait) > 0 {
		return notYet(ReasonSettlement, "nobody present knows of step %d of quorum %d, waiting for %s",
			s.step, s.quorumID, nameIDs(s.wait))
	}
	d = m.build(kind, why, chosen, s)
	// §6a: the same members again, after quorums that committed nothing. (A replica that
	// called other collectives made 17 quorums a second, each a raft write.)
	if kind == windowFall && d.Quorum.ID != m.last.ID && m.committedNothing(&d.Quorum) && now.Before(m.pausedUntil()) {
		return notYet(ReasonPause, "%d quorums in a row committed nothing, the next one is formed %v after the fall",
			m.barren+1, pauseAfter(m.barren+1))
	}
	return d
}

// stays says that a holder is chosen though it drains.
func stays(holder *replica, chosen []*replica) bool {
	return holder.draining && slices.Contains(chosen, holder)
}

func outsiders(v *survey) string {
	if v.joined == 0 {
		return ""
	}
	return fmt.Sprintf(", %d joined from outside", v.joined)
}

// quorate returns those who can be in the next quorum, and whether they are enough
// for it. Who is kept apart by a bad link has joined, so it counts for the majority
// (Q5), as one over MaxReplicas does; of those who are left there must be
// min_replicas (Q3). When there are not, and the join timeout is over, the parted
// meet again (Q6 goes before Q9): it would be waiting for nothing. Whoever is kept
// apart from keep, if that is not nil, goes first.
func (m *Machine) quorate(now time.Time, kind windowKind, v *survey, keep *replica) ([]*replica, Decision, bool) {
	all, chosen, d, ok := m.reachable(now, kind, v, keep)
	if ok || all == nil || !m.overdue(now, kind, v) {
		return chosen, d, ok
	}
	// Newcomers are let in before the parted meet. (Two whose link was cut met again, for a
	// member wanted no newcomers, of whom enough had joined.)
	if v.shrinkOnly {
		anybody := *v
		anybody.shrinkOnly = false
		if _, chosen, d, ok := m.reachable(now, kind, &anybody, keep); ok {
			return chosen, d, true
		}
	}
	// Q6 before Q9: too few are left without the parted, so they meet again. If their link
	// is still broken that costs one failed step for each join timeout; waiting for the
	// retry, up to an hour, would help none.
	return all, Decision{}, true
}

// reachable returns all who can be in the next quorum, and those of them who reach each
// other, and whether they are enough. all is nil where they were too few with the parted.
func (m *Machine) reachable(now time.Time, kind windowKind, v *survey, keep *replica) (all, chosen []*replica, d Decision, ok bool) {
	all, live := m.eligible(now, kind, v, keep)
	if d, ok := m.enough(all); !ok {
		return nil, all, d, false
	}
	// The majority is counted before the parted are taken out: they have joined, and
	// cannot be in one quorum. (Otherwise a cut between two halves stops both.)
	if d, ok := m.hasMajority(all, live); !ok {
		return nil, all, d, false
	}
	chosen = all
	// Q10 before Q9: without the holder none goes on, so those go from whom it is parted.
	if keep != nil {
		chosen = slices.DeleteFunc(slices.Clone(all), func(r *replica) bool { return m.apart(now, keep.id, r.id) })
	}
	chosen = m.connected(now, chosen)
	with := chosen
	if keep != nil && !keep.candidate() {
		with = append(slices.Clip(with), keep) // it drains, and will be in
	}
	d, ok = m.enough(with)
	return all, chosen, d, ok
}

// overdue says that the window has been open for the join timeout.
func (m *Machine) overdue(now time.Time, kind windowKind, v *survey) bool {
	switch kind {
	case windowFall:
		return !now.Before(m.fallenAt.Add(m.config.JoinTimeout))
	case windowFirst:
		return !now.Before(v.first.Add(m.config.JoinTimeout))
	}
	return false // the quorum stands: nothing is overdue, for it trains
}

// eligible filters the candidates by shrink-only, and counts the live replicas
// that they are held against (Q5): with shrink-only, the live members of the last
// quorum, for no other is chosen while they are enough. Whoever is on probation is not let into a
// quorum that stands, and whoever is refused into none, but for keep, if that is not
// nil: nobody goes on without it (Q10). (The only one left that held the highest
// position was refused, and the others waited until that was over, for minutes.)
func (m *Machine) eligible(now time.Time, kind windowKind, v *survey, keep *replica) ([]*replica, int) {
	candidates, live, liveMembers := m.candidates(v.joined), v.live, v.liveMembers
	// L1: one that is lost soon after each time it was let in ends no quorum that stands.
	// Where none stands it is let in: none is disturbed, and it may be the one needed.
	if kind == windowAsk {
		candidates = slices.DeleteFunc(candidates, func(r *replica) bool { return r != keep && m.onProbation(now, r) })
		live -= v.joined - len(candidates)
	}
	if len(m.refusals) > 0 {
		rest := slices.DeleteFunc(slices.Clone(candidates), func(r *replica) bool {
			return r != keep && m.refused(now, r) && !(kind == windowAsk && m.behaves(r))
		})
		// Where too few are left without them they meet again (Q6): after a fall in a
		// while; at once where the quorum stands, and would only go on as it is.
		if len(rest) >= m.config.MinReplicas || kind != windowAsk && !m.overdue(now, kind, v) {
			live -= len(candidates) - len(rest)
			liveMembers -= countMembers(candidates) - countMembers(rest)
			candidates = rest
		}
	}
	if v.shrinkOnly && m.last != nil {
		// Nor does it keep out the holder without which nobody goes on (Q10). (A member that
		// asked for it, and the holder, which was lost and back, waited for each other.)
		members := slices.DeleteFunc(slices.Clone(candidates), func(r *replica) bool { return !r.member && r != keep })
		// Where too few are left it is ignored (Q6): the member that asks for it
		// would wait for those who died, for ever.
		if len(members) >= m.config.MinReplicas || !m.overdue(now, kind, v) {
			return members, liveMembers
		}
	}
	return candidates, live
}

// enough checks Q3. It is asked twice: of all that joined, and of those that are left
// without the parted.
func (m *Machine) enough(eligible []*replica) (Decision, bool) {
	if len(eligible) < m.config.MinReplicas {
		return notYet(ReasonTooFew, "%d of at least %d", len(eligible), m.config.MinReplicas), false
	}
	return Decision{}, true
}

// hasMajority checks Q5: a minority that joined first does not go on without the live
// replicas that are late, which would wait in vain for it in their old quorum. The whole
// last quorum may go on as it was, beside any number of newcomers.
func (m *Machine) hasMajority(eligible []*replica, live int) (Decision, bool) {
	if 2*len(eligible) <= live && !m.containsLast(eligible) {
		return notYet(ReasonNoMajority, "%d joined of %d live, want more than half", len(eligible), live), false
	}
	return Decision{}, true
}

// containsLast says that all members of the last quorum are among the sorted rs.
func (m *Machine) containsLast(rs []*replica) bool {
	// Q5: of none nothing is contained, so a first quorum needs more than half.
	if m.last == nil {
		return false
	}
	return countMembers(rs) == len(m.last.Members)
}

// countMembers counts the members of the last quorum.
func countMembers(rs []*replica) (n int) {
	for _, r := range rs {
		if r.member {
			n++
		}
	}
	return n
}

// choose caps the eligible at MaxReplicas, members of the last quorum first, and
// keeps Q10: one of them holds the highest position known while a live replica
// does. A draining replica that alone holds it stays in.
func (m *Machine) choose(eligible []*replica, s settling) ([]*replica, Reason) {
	holder, top := m.holder(s)
	holds := func(r *replica) bool {
		return !r.join.Member.Torn && m.positionAfter(r, s.list) == top && (!r.differs() || holder.differs())
	}
	chosen := m.capped(eligible, holds)
	// §5: a member that drains stays while it alone holds the highest position. (Drained,
	// it took the only copy of the state with it.)
	leaving := holder != nil && holder.draining && holder.present()
	// All torn: no whole state is there. A quorum of them would heal rank by rank from
	// different steps, into a state that never was.
	if !leaving && !slices.ContainsFunc(chosen, func(r *replica) bool { return !r.join.Member.Torn }) {
		return nil, Reason{ReasonHolder, "the ranks of each candidate are at different positions"}
	}
	if holder == nil || slices.ContainsFunc(chosen, holds) {
		return chosen, Reason{}
	}
	// Q10: the others would commit steps beside the holder's, and C4 would be broken while
	// it lives.
	if leaving {
		return insertReplica(slices.Clone(chosen), holder), Reason{}
	}
	return nil, Reason{ReasonHolder, fmt.Sprintf("%s is at %v", holder.id, top)}
}

// capped leaves MaxReplicas of the eligible: members of the last quorum first,
// so that a crowd of joiners does not push them out, and a holder.
func (m *Machine) capped(eligible []*replica, holds func(*replica) bool) []*replica {
	limit := m.config.maxReplicas()
	if len(eligible) <= limit {
		return eligible
	}
	chosen := slices.Clone(eligible)
	slices.SortStableFunc(chosen, func(a, b *replica) int {
		return preference(a, holds) - preference(b, holds)
	})
	// Q10: without a place for it the quorum would wait for the one that it left out.
	if !slices.ContainsFunc(chosen[:limit], holds) {
		if at := slices.IndexFunc(chosen, holds); at >= 0 {
			chosen[limit-1] = chosen[at]
		}
	}
	chosen = chosen[:limit]
	slices.SortFunc(chosen, func(a, b *replica) int { return compareReplica(a, b.id) })
	return chosen
}

// preference ranks a candidate for a place when there are too few: a holder and
// member, a member, a holder, any other.
func preference(r *replica, holds func(*replica) bool) int {
	switch {
	case r.member && holds(r):
		return 0
	case r.member:
		return 1
	case holds(r):
		return 2
	}
	return 3
}

// holder finds the highest position that a replica which is there is known to
// hold after settlement, and one that holds it: one that has joined, if any. An
// open session counts though it has not joined yet: it may have been cut off and
// gone on alone. One whose bytes are known to differ holds the position only if
// nobody else does. (Else a decision without the others, who are a moment late,
// would make all of them heal from the one that is wrong.) Of a, which has joined at 5@3, and b,
// which says 6@3 in its beats and has not joined (transcript 08_holder):
//
//	b's session is open    b: it is waited for
//	b is lost, or stuck    a: the highest position falls, which is reported (C4)
//	b joins, torn          a: b's ranks are at different positions
//	b joins, differs       b, for it is alone at 6@3; with c at 6@3 it is c
func (m *Machine) holder(s settling) (*replica, Position) {
	var holder *replica
	var top Position
	for _, r := range m.order {
		// Gone; or stuck, for which none waits (§4.5). Then the position falls, and that is
		// reported (C4).
		if r.lost || r.evicted || r.stuck || !r.member && !r.joined && !r.session {
			continue
		}
		p := r.position // by its beats; a join says more, what it stands on after settlement
		if r.present() {
			if r.join.Member.Torn {
				continue // §5: its ranks are at different positions, and it holds none of them
			}
			p = m.positionAfter(r, s.list)
		}
		c := orderPositions(m.ledger.Cluster, p, top)
		if holder == nil || c > 0 || c == 0 && holderBefore(r, holder) {
			holder, top = r, p
		}
	}
	return holder, top
}

// holderBefore prefers who does not differ, then who is a candidate, then who is
// there at all.
func holderBefore(a, b *replica) bool {
	// §2.7: of two at one position the one whose bytes are the others' is the holder.
	if a.differs() != b.differs() {
		return b.differs()
	}
	rank := func(r *replica) int {
		switch {
		case r.candidate():
			return 0
		case r.present():
			return 1
		}
		return 2
	}
	return rank(a) < rank(b)
}
