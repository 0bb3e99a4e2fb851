package quorum

import (
	"fmt"
	"slices"
)

// settling is what forming a quorum now would settle.
type settling struct {
	list     []Settlement // new ones: contested steps, and what those stand on
	headline Settlement   // the contested one that the answer carries: a forwarded one if there are two
	wait     []ReplicaID  // who may know what nobody present knows
	step     int64        // about which step we wait
	quorumID int64
	notes    []string // for people: what cannot be and was
}

// memberClaim is what one present member of a fallen quorum says of it.
type memberClaim struct {
	r        *replica // its join waits
	upToDate bool     // had the step under way
	moved    bool     // was seen in a later quorum: it left this one without a word
}

// settle finds what became of the steps under way (PROTOCOL §4.2, §4.6). The
// contested quorum is the one that the facts name: the last one, or an older one
// that its members went on in because none had the last answer (execution 4 of §10:
// settled by the ledger's last quorum alone, their step would be lost).
func (m *Machine) settle() settling {
	var s settling
	if m.last == nil {
		return s
	}
	var seen []int64
	for _, r := range m.order {
		// §4.1: a held one does not count before its name is free; then it is asked anew.
		if !r.present() || r.join.held {
			continue
		}
		id := m.ranIn(r)
		if id == 0 || slices.Contains(seen, id) || m.closed(id) {
			continue // a newcomer; or settled, in this look or in the ledger (C6)
		}
		members := m.last.Members
		if id != m.last.ID { // only those who were in it know its list
			members = m.listOf(r.join.Last)
		}
		// No list of it is known here, so none can say whose ballots its step took.
		if len(members) == 0 {
			continue
		}
		seen = append(seen, id)
		m.settleQuorum(&s, id, members)
	}
	here := slices.ContainsFunc(m.order, func(r *replica) bool { return r.member && r.present() })
	// Once it is settled they bring no more than what the ledger says of it.
	if !here && !m.closed(m.last.ID) {
		m.awaitAnyone(&s)
	}
	return s
}

// ranIn is the quorum in which a joiner ran last; 0: in none.
func (m *Machine) ranIn(r *replica) int64 {
	// Whatever answer it names: a fact or a position of the last quorum says that it was there.
	if r.member && m.entered(r) {
		return m.last.ID
	}
	return r.join.Last.ref().id
}

// closed says that a contested step of that quorum, or of a later one, was
// settled: some member left it for good, so nothing happened in it since. One that was
// only stood upon (Standing) closes nothing: later steps of its quorum may be contested.
func (m *Machine) closed(id int64) bool {
	return slices.ContainsFunc(m.ledger.Settled, func(s Settlement) bool {
		return s.QuorumID >= id && !s.Standing
	})
}

// awaitAnyone: no member of the last quorum is here (§4.2). Those who live may have
// committed, and of the joiners none knows. A stuck one is not waited for: it may never
// join (L1).
func (m *Machine) awaitAnyone(s *settling) {
	for _, r := range m.order {
		if r.member && !r.present() && !r.lost && !r.evicted && !r.stuck {
			s.wait = append(s.wait, r.id)
		}
	}
	s.step, s.quorumID = highest(m.last.Cluster, m.last.Members).Step+1, m.last.ID
}

// settleQuorum settles one quorum's contested step. The rows of §4.6 by example: a, b and c
// were in quorum 3, and step 5 was under way.
//
//	a              b             c
//	committed d    prepared d    prepared d   forward: b and c roll forward (execution 1 of §10)
//	lost           prepared d    prepared d   forward: a may have committed, and given its state
//	                                          to others (execution 2)
//	lost           gave-up       prepared d   forward: gave-up weighs nothing (execution 3)
//	lost           refused       prepared d   discard: without b's promise there was no commit
//	lost           prepared d    prepared e   discard: of unequal digests nothing is committed
//	live, absent   gave-up       gave-up      wait for a: none of the others can know
//	lost           gave-up       gave-up      discard: nobody is left that could know
func (m *Machine) settleQuorum(s *settling, id int64, members []Member) {
	claims, absent := m.memberClaims(id, members)
	// All asked: nothing was cut short, and a discard of a step that none began would be
	// wrong as soon as they go on in a higher round (execution 5 of §10).
	if !underWay(claims) {
		m.settleStanding(s, id, claims)
		return
	}
	base, ok := contestedBase(claims)
	if !ok { // none that is here had the step under way: those who had are waited for
		s.wait = append(s.wait, absent...)
		s.step, s.quorumID = highest(m.last.Cluster, members).Step+1, id
		return
	}
	w := weigh(claims, base.Step+1, id)
	out := Settlement{Outcome: Discard, Step: base.Step + 1, QuorumID: id}
	before := findSettled(m.ledger.Settled, out.Step, id)
	switch {
	// The rows of §4.6, in their order.
	case before != nil: // C6: a member that stood on it has moved on since
		out = *before
		out.Standing = false
	case w.committed > 0: // C5: whatever the others say
		out.Outcome, out.Digests = Forward, w.digests
	case w.refused == 0 && w.prepared > 0 && !w.differ:
		// Execution 2 of §10: a member that committed, and is dead, may have given its
		// state to others before. Done again the step would have other bytes (C1).
		out.Outcome, out.Digests = Forward, w.digests
	case w.refused == 0 && w.prepared == 0 && len(absent) > 0:
		// All who are here gave up, or were behind: only those who are not here can know.
		s.wait, s.step, s.quorumID = append(s.wait, absent...), out.Step, id
		return
	}
	// A refusal, or two digests, are the word of one that it was committed nowhere (§2):
	// the step is discarded, and those who were prepared need not wait for the absent.
	if w.committed > 0 && w.differ {
		s.notes = append(s.notes, fmt.Sprintf("step %d of quorum %d: %s", out.Step, id, "members committed different digests"))
	}
	// C5: the step below it was committed by the members that stand on it. One that
	// comes later, prepared for that one, is told so, though they have moved on.
	m.recordStanding(s, base, id, baseDigests(claims, base))
	s.list = append(s.list, out)
	// One that drained reads its step's fate here. A forward is what it must not miss: without one
	// it discards (Claim.SettleOutside).
	if s.headline.Outcome != Forward || out.Outcome == Forward {
		s.headline = out
	}
}

// settleStanding: the members only asked. Nothing is contested, but what they
// stand on was committed, and is recorded before they move on (§4.6): else a member
// that is prepared for it, and comes when they are gone, would be told to discard
// it (C5; execution 6 of §10). If the id stays, build drops this.
func (m *Machine) settleStanding(s *settling, id int64, claims []memberClaim) {
	var top memberClaim
	for _, st := range claims {
		if p := st.r.join.Member.Position; p.QuorumID == id && (top.r == nil || p.Step > top.r.join.Member.Position.Step) {
			top = st
		}
	}
	if top.r != nil {
		m.recordStanding(s, top.r.join.Member.Position, id, top.r.join.LastDigests)
	}
}

// recordStanding records that a quorum committed the step at p.
func (m *Machine) recordStanding(s *settling, p Position, id int64, d []Digest) {
	// Without digests none that is prepared could be compared with it (positionAfter).
	if p.QuorumID != id || len(d) == 0 || findSettled(m.ledger.Settled, p.Step, id) != nil {
		return
	}
	s.list = append(s.list, Settlement{Outcome: Forward, Step: p.Step, QuorumID: id, Digests: d, Standing: true})
}

// memberClaims collects the present members of a quorum, and the absent that live.
func (m *Machine) memberClaims(id int64, members []Member) ([]memberClaim, []ReplicaID) {
	plan := planHeals(&Quorum{Cluster: m.ledger.Cluster, Members: members})
	var out []memberClaim
	var absent []ReplicaID
	for rank, member := range members {
		r := m.replicas[member.ReplicaID]
		// None waits for the dead, whatever they have committed (execution 2 of §10). One
		// that comes back later is a holder, or obeys (§4.5, §4.6).
		if r == nil || r.lost || r.evicted {
			continue
		}
		if !r.present() {
			if !r.stuck { // L1: one that hangs is not waited for
				absent = append(absent, r.id)
			}
			continue
		}
		w := r.join
		p := w.Member.Position
		promised := w.Fact.about(p.Step+1, id) && (w.Fact.Kind == Prepared || w.Fact.Kind == Committed)
		silent := w.Fact.Kind == NoFact || w.Fact.Kind == GaveUp
		top, heals := plan.max, plan.heals(rank)
		if part := w.Last.partOf(id); part != nil {
			top, heals = part.Max, part.Heal // the list may lack those at the top
		}
		st := memberClaim{r: r, moved: w.Last.ref().id > id || p.QuorumID > id}
		// §4.2: a member that had to heal and did not is behind, and does not lower the
		// contested step: others committed without it (execution 3 of §10). Torn, it says
		// what one of its ranks knows (§5).
		st.upToDate = !st.moved && !w.Member.Torn && (p.QuorumID == id || promised || p == top && !(heals && silent))
		out = append(out, st)
	}
	return out, absent
}

// underWay says that a member's quorum fell, so that a step may have been cut
// short. Where all only asked there is none, whatever they say (a member that
// could not heal says gave-up): they go on in the same quorum.
func underWay(claims []memberClaim) bool {
	return slices.ContainsFunc(claims, func(s memberClaim) bool { return s.r.join.Kind != JoinAsk })
}

// contestedBase is the lowest position among the members that had the step under
// way; a member is at most one ahead of it, for a step takes the ballots of all (§4.2).
// The highest would settle the step that no other has begun, and leave the one open that
// some are prepared for: where a is at 6@3, and b at 5@3 and prepared for step 6, step 6 is
// contested, of which a says that it committed it, and not step 7.
func contestedBase(claims []memberClaim) (Position, bool) {
	var base Position
	var top int64
	found := false
	for _, s := range claims {
		if s.upToDate {
			top = max(top, s.r.join.Member.Position.Step)
			found = true
		}
	}
	if !found {
		return base, false
	}
	found = false
	for _, s := range claims {
		p := s.r.join.Member.Position
		// None that had this step under way can be further below: its word is wrong.
		if s.upToDate && p.Step >= top-1 && (!found || p.Compare(base) < 0) {
			base, found = p, true
		}
	}
	return base, true
}

// weight is what the facts on one contested step come to.
type weight struct {
	committed, prepared, refused int
	digests                      []Digest // of the commits; where there is none, of the prepared
	differ                       bool     // two of these are unequal
}

// weigh counts the facts about (step, id), as the table of §1 weighs them. A commit
// outweighs everything; its digests replace those of prepared members, of whom one that
// reduced other bytes heals (§4.6). Gave-up is no case: it may be a commit's or a
// refusal's.
func weigh(claims []memberClaim, step, id int64) weight {
	var w weight
	for _, s := range claims {
		kind, digests := s.fact(step, id)
		switch kind {
		case Committed:
			// C5: what was committed is so, whatever prepared members reduced.
			if w.committed == 0 {
				w.digests, w.differ = digests, false
			}
			w.committed++
			w.differ = w.differ || !slices.Equal(w.digests, digests)
		case Prepared:
			w.prepared++
			if w.committed > 0 {
				continue
			}
			// C1: prepared members settle only by one and the same digest.
			if w.prepared == 1 {
				w.digests = digests
			}
			w.differ = w.differ || !slices.Equal(w.digests, digests)
		case Refused:
			w.refused++
		}
	}
	return w
}

// fact is one member's word on (step, id). A member that had it under way and
// says nothing never balloted, so it weighs as one that refused; so does one that
// left for a later quorum. A member that is behind, or torn, weighs nothing.
func (s memberClaim) fact(step, id int64) (FactKind, []Digest) {
	join := s.r.join
	f, p := join.Fact, join.Member.Position
	switch {
	case join.Member.Torn:
		return NoFact, nil // §5: some rank's word, not the replica's
	// It stands on the step, whatever its fact speaks of: that is about the next one.
	case p.Step == step && p.QuorumID == id:
		return Committed, join.LastDigests
	case s.moved:
		// It is in a later quorum, and left this one without a word of the step: it keeps no
		// promise about it.
		return Refused, nil
	case f.about(step, id) && f.Kind != NoFact:
		return f.Kind, f.Digests
	case s.upToDate:
		return Refused, nil // without its ok ballot there was no commit
	}
	return NoFact, nil // behind: the others did not need its ballot's ok, see Ballot.ok
}

// baseDigests are those of the step that the contested one stands on, if a
// member on it tells them.
func baseDigests(claims []memberClaim, base Position) []Digest {
	for _, s := range claims {
		if s.upToDate && s.r.join.Member.Position == base && len(s.r.join.LastDigests) > 0 {
			return s.r.join.LastDigests
		}
	}
	return nil
}

// positionAfter is where a joined replica stands after settlement: what was settled
// before, and what is settled now. Who rolls forward is at the step's own quorum,
// never at the new one, for its bytes are those that the quorum committed (C1).
//
// A position is what it is, also that of a step which was discarded while its
// last holder was out of sight: it has one set of bytes, and may be all that is
// left. A discard binds those who claim the step, not those who hold it.
//
// Step 5 of quorum 3 was settled forward, with digest d:
//
//	a at 5@3                             stays there, for it has committed
//	b at 4@3, prepared for it with d     5@3
//	c at 4@3, prepared for it with e     4@3, and heals: it reduced other bytes
//	c at 4@3, gave its promise up        4@3, and heals: its gradients are gone
func (m *Machine) positionAfter(r *replica, now []Settlement) Position {
	p, f := r.join.Member.Position, r.join.Fact
	// Only a whole replica with a promise rolls forward, and by the one step that it promised (C2).
	if r.join.Member.Torn || f.Kind != Prepared && f.Kind != Committed || f.Step != p.Step+1 {
		return p
	}
	// Other digests than those that were settled are other bytes (C1): it stays below, and
	// heals.
	s := m.outcome(f.Step, f.QuorumID, now)
	if s == nil || s.Outcome != Forward || !slices.Equal(s.Digests, f.Digests) {
		return p
	}
	return Position{Cluster: m.clusterOf(f.Step, f.QuorumID), Step: f.Step, QuorumID: f.QuorumID}
}

// outcome finds what was settled: once (C6), so the ledger's word stands before
// a new one.
func (m *Machine) outcome(step, id int64, now []Settlement) *Settlement {
	if s := findSettled(m.ledger.Settled, step, id); s != nil {
		return s
	}
	return findSettled(now, step, id)
}

// clusterOf is the cluster in which a quorum committed a step: that of a replica
// that holds it, or that holds another step of it, or else the last quorum's.
func (m *Machine) clusterOf(step, id int64) string {
	cluster, found := m.ledger.Cluster, false
	// A restored quorum may be of another cluster than this ledger (§4.3).
	if m.last != nil && m.last.ID == id {
		cluster = m.last.Cluster
	}
	for _, r := range m.order {
		// Of another quorum, or of none that is known by a cluster.
		if r.position.QuorumID != id || r.position.Cluster == "" {
			continue
		}
		if r.position.Step == step {
			return r.position.Cluster
		}
		if !found {
			cluster, found = r.position.Cluster, true
		}
	}
	return cluster
}
