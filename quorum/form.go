package quorum

import (
	"fmt"
	"slices"
	"time"
)

// build makes the next quorum of the chosen replicas, which are sorted by id: the index is the
// replica rank. It only reads; Form makes it so.
func (m *Machine) build(kind windowKind, why Reason, chosen []*replica, s settling) Decision {
	q := Quorum{Cluster: m.ledger.Cluster, Job: m.ledger.Job}
	d := Decision{Ready: true, Reason: why, settled: s.list, notes: s.notes, change: m.change}
	// C6: who obeys it reads it here. One that drains, and is in no list, learns by nothing
	// else what became of its step (Claim.SettleOutside).
	q.Settlement = s.headline
	for _, r := range chosen {
		// §4.6: heals and participants go by positions after settlement, or a member that
		// rolls forward would be told to heal what it holds.
		member := r.join.Member
		member.Position = m.positionAfter(r, s.list)
		q.Members = append(q.Members, member)
		d.Answers = append(d.Answers, Answered{r.id, r.join.Number})
	}
	// §5: a member that drains is told that it is out, and what became of its step. (Left
	// without an answer it would hold its promise, and serve, until a deadline.)
	for _, r := range m.order {
		if r.draining && r.present() && r.member && !slices.Contains(chosen, r) {
			d.Answers = append(d.Answers, Answered{r.id, r.join.Number})
		}
	}
	slices.SortFunc(d.Answers, func(a, b Answered) int { return compareReplica(&replica{id: a.ReplicaID}, b.ReplicaID) })
	// §2.2: whose data count is said here, once. Were each member to find out by itself, two
	// could divide by different numbers.
	q.Participants = participants(q.Cluster, q.Members)
	m.assignID(&q, chosen, &d)
	m.seat(&q)
	if q.ID == m.last.ref().id {
		// §4.2, §4.6: the quorum goes on, and may yet commit the step in a higher round. A
		// discard written now would bind members that hold it (execution 5 of §10).
		d.settled = nil
	}
	if d.Changed {
		q.Reason = m.formedText(kind, why, &q)
	}
	d.Quorum = q
	// The command names the quorum upon which it was decided: where another leader has written
	// meanwhile the ledger refuses it (ErrFenced), and nothing was told.
	d.follows = Formed{FollowsID: m.ledger.Last.ref().id, FollowsRound: m.ledger.Last.ref().round, Client: m.client}
	d.accusations, d.base, d.fallen, d.joiners = fewOf(m.accused), m.ledger.Last, m.fallen, m.joiners
	return d
}

// assignID gives the quorum its id and round (Q1, Q2; §4.3, §4.7): a new id whenever
// process groups must be rebuilt, a new round when only the answer differs, and neither
// when it is the same answer.
//
//	                                            id      round   groups
//	nothing differs that members act upon       stays   stays   stay, and so does what they do
//	participants, heals, addresses or the       stays   rises   stay: the round tells frames of
//	settlement differ                                           both answers apart
//	other members; a broken group, a failed     new     1       are made anew, with a prefix that
//	commit, a member that never entered                         was never used
func (m *Machine) assignID(q *Quorum, chosen []*replica, d *Decision) {
	// Q2: one id is one list; §4.7: a broken group's prefix is used once.
	if m.last == nil || !sameMembers(q.Members, m.last.Members) || m.mustRebuild(chosen) || !m.tellable() ||
		m.ledger.Last.ref().id != m.last.ID {
		// A list with members missing, or seats unknown, is not told again: it would be
		// another one under the same id. Nor is an id that only a member brought here, for
		// the ledger has never held it.
		q.ID, q.Round, d.Changed = m.ledger.HighestID+1, 1, true
		return
	}
	// The token too: the members' links to each other were made with it, and stay.
	q.ID, q.Round, q.Token = m.last.ID, m.last.Round, m.last.Token
	// A member that comes late still finds in the answer what was settled (C6).
	if q.Settlement.Outcome == NothingToSettle {
		q.Settlement = m.last.Settlement
	}
	// Not Changed: nothing is written, and the time and reason of its forming stay.
	if sameAnswer(q, m.last) {
		q.CreatedMs, q.Reason = m.last.CreatedMs, m.last.Reason
		return
	}
	// §4.3: the id stays, and the groups with it. The round tells frames and ballots of the two
	// answers apart (§2.2).
	q.Round++
	d.Changed = true
}

// mustRebuild says that the members' process groups cannot be used again (§4.7): a
// commit failed, a prepared claim counts as such; or a member's group is broken; or a
// member never entered the last quorum. (One that was told the same id again would keep
// its broken group, and the others wait in theirs.)
func (m *Machine) mustRebuild(chosen []*replica) bool {
	return slices.ContainsFunc(chosen, func(r *replica) bool {
		w := r.join
		return w.Member.CommitFailures > 0 || w.Fact.Kind == Prepared || w.Kind == JoinFall ||
			w.Kind == JoinAsk && !m.entered(r)
	})
}

// sameAnswer compares what members act upon (§4.3): where nothing of that differs the
// round stays, and no member has to do anything. Positions may all have moved on
// together: who heals from whom is what counts. Were the divisor or the participants to
// change within a round, two members could divide by different numbers.
//
//	all have committed a step more           the same answer
//	b has healed, and takes part from now    another one: the divisor is another
//	b's store is at another address          another one: group ranks meet there
func sameAnswer(a, b *Quorum) bool {
	pa, pb := planHeals(a), planHeals(b)
	return slices.Equal(a.Participants, b.Participants) &&
		slices.Equal(pa.upToDate, pb.upToDate) && slices.Equal(pa.healing, pb.healing) &&
		a.Settlement.Outcome == b.Settlement.Outcome &&
		a.Settlement.about(b.Settlement.Step, b.Settlement.QuorumID) &&
		slices.EqualFunc(a.Members, b.Members, func(x, y Member) bool {
			return x.Address == y.Address && x.StoreAddress == y.StoreAddress &&
				x.GroupWorldSize == y.GroupWorldSize
		})
}

// formedText says for people why a quorum was formed.
func (m *Machine) formedText(kind windowKind, why Reason, q *Quorum) string {
	text := why.String()
	switch kind {
	case windowFall:
		text = m.fell.String() + "; " + text
	case windowAsk:
		if m.wanted.reason != "" {
			text = m.wanted.reason + "; " + text
		}
	// Before the first quorum of all none ended.
	case windowFirst:
		if m.last != nil {
			text = "no member of the last quorum lives; " + text
		}
	}
	ids := memberIDs(q.Members)
	var old []ReplicaID
	if m.last != nil {
		old = memberIDs(m.last.Members)
	}
	// Of a first quorum all are in, which the member list says.
	if in := without(ids, old); len(in) > 0 && len(old) > 0 {
		text += "; in: " + nameIDs(in)
	}
	if out := without(old, ids); len(out) > 0 {
		text += "; out: " + nameIDs(out) + m.refusedText(out)
	}
	// C4: it is reported with the quorum that goes on below it, in the history too.
	if top := highest(q.Cluster, q.Members); m.positionFell(top) {
		text += fmt.Sprintf("; the highest position fell from %v to %v, all its holders are gone", m.highest, top)
	}
	return text
}

// refusedText says why those live who are out all the same: their operators are to see it.
// It names maxNamed of them, since the ledger refuses a reason without a bound: a job
// of which hundreds are refused would form no quorum.
func (m *Machine) refusedText(out []ReplicaID) (text string) {
	refused := 0
	for _, id := range out {
		if r := m.replicas[id]; r == nil || !m.refused(m.now, r) {
			continue
		}
		if refused++; refused <= maxNamed {
			text += fmt.Sprintf("; %s is refused, it %s", id, m.refusalOf(id).why)
		}
	}
	if rest := refused - maxNamed; rest > 0 {
		text += fmt.Sprintf("; %d more are refused", rest)
	}
	return text
}

// positionFell is C4: the highest position that anyone ever held is gone with
// its holders. It is asked of the positions after settlement, and said once: formChanged goes on
// from the lower one.
func (m *Machine) positionFell(top Position) bool {
	return orderPositions(m.ledger.Cluster, m.highest, top) > 0
}

// Form makes a ready decision so, after the shell has written its command if it
// is Changed. It consumes the joins that it answers, and returns the quorum to
// answer them with. t and createdMs must be those of the command. A decision
// that is not ready, or that another Form has overtaken, is the caller's error
// and panics.
//
//	Changed           another id or round, which is written first: nothing was said of it yet
//	ReasonRepeat      the last answer, for those who have not had it: nothing begins
//	the same answer   id and round stay: they joined, and it makes no difference to what they do
func (m *Machine) Form(now time.Time, d Decision, t Token, createdMs int64) Quorum {
	m.Advance(now)
	if !d.Ready {
		panic(fmt.Sprintf("quorum: Form of a decision that is not ready: %v", d.Reason))
	}
	// A repeat is what it was; formChanged completes one that is new.
	q := d.Quorum
	switch {
	case d.Changed:
		q = m.formChanged(now, d, t, createdMs)
	case d.Reason.Code == ReasonRepeat:
		m.repeated(d)
	case m.last.ref() == q.ref():
		// The same answer: only what members say of themselves is new.
		m.last = &q
		m.change = "" // they asked, and it made no difference
		m.standAgain(now, d)
		// Q10: the members have moved on together; the highest position is what none may fall
		// behind.
		for _, member := range q.Members {
			m.notePosition(m.replicas[member.ReplicaID], member.Position)
		}
		switch {
		case !m.wanted.pushed || m.fallen:
		// C7: its word would else wait for the join timeout.
		case m.joiners != d.joiners:
			m.wanted.pushed = false // who joined since was not seen: they are told again at once
		default:
			// They asked, and nothing came of it: in a while they are told again,
			// if a reason remains.
			m.wanted.again = now.Add(m.config.JoinTimeout)
		}
	}
	m.consume(now, d)
	if !d.Changed {
		m.unsign() // what was asked came to the answer that there was
	}
	m.overtaken(now, d)
	m.announceChange(now)
	m.reschedule()
	return q
}

// standAgain: a member that was lost is back when the decision is made, and the quorum
// stands again (§4.4), unless it fell since. (It stood again though a member had died
// while leadership was checked; the others had received that, and were told to go on.)
func (m *Machine) standAgain(now time.Time, d Decision) {
	if !d.fallen {
		return
	}
	m.fallen, m.fell, m.fallenAt = false, Cause{}, time.Time{}
	m.announceLosses(now)
}

// announceLosses tells of members of the last quorum that were lost or evicted between Decide
// and Form.
func (m *Machine) announceLosses(now time.Time) {
	for _, member := range m.last.Members {
		// It died before this quorum began, and after it was decided.
		if r := m.replicas[member.ReplicaID]; r != nil && (r.lost || r.evicted) {
			m.memberLost(now, r, r.gone)
		}
	}
}

// overtaken is the end of §4.4: an answer is told after a write, or a check of leadership,
// and meanwhile its quorum may have fallen, or the one that it makes: a member joined by a
// fall that the answer does not speak of. Who had a join waiting then was not told of the fall,
// for it was no member that trains; now it is, behind the answer. (Else it would wait in
// a new group for those who have left it, until its deadline.) Of deaths in a quorum that
// is new announceLosses has told.
func (m *Machine) overtaken(now time.Time, d Decision) {
	lossesTold := d.Changed && m.fallen
	for _, r := range m.order {
		// consume has left its join, so it came later, and ends the quorum now.
		if r.member && r.present() && r.join.Kind == JoinFall && !r.join.held && !m.repeats(r) {
			m.fall(now, m.fallCause(r))
		}
	}
	if !m.fallen || lossesTold {
		return
	}
	for _, a := range d.Answers {
		if r := m.replicas[a.ReplicaID]; r != nil && !r.lost && r.member {
			m.tellFallen(r)
		}
	}
}

// repeated tells those who get the last answer again that a change is wanted: what they
// were told of it before may have been lost with the answer. (The others would ask, and
// wait for an ask that never comes.)
func (m *Machine) repeated(d Decision) {
	m.event(EventRepeated, "", fmt.Sprintf("%d joins", len(d.Answers)))
	// No change is wanted; or the quorum is over, which overtaken tells them.
	if !m.wanted.pushed || m.fallen {
		return
	}
	n := Notice{Kind: NoticeWanted, QuorumID: m.last.ID, Reason: m.wanted.reason}
	for _, a := range d.Answers {
		if r := m.replicas[a.ReplicaID]; r != nil && r.member {
			n.To = append(n.To, a.ReplicaID)
		}
	}
	m.notify(n)
}

// formChanged applies the command to this machine's ledger and begins the new
// quorum.
func (m *Machine) formChanged(now time.Time, d Decision, t Token, createdMs int64) Quorum {
	f := d.Command(m.ledger.Term, t, createdMs)
	top := highest(f.Quorum.Cluster, f.Quorum.Members)
	// §6a: the pause grows with the quorums in a row that committed nothing and had the same
	// members. A commit ends the row.
	if m.last != nil && f.Quorum.ID != m.last.ID {
		switch {
		case m.committedNothing(&f.Quorum):
			m.barren++
		case top.Step > highest(m.last.Cluster, m.last.Members).Step:
			m.barren = 0
		}
	}
	if m.positionFell(top) { // C4: it is said, for an operator may have a file to start from
		m.event(EventPositionFell, "", fmt.Sprintf("from %v to %v", m.highest, top))
	}
	m.highest = top
	// Q1: a replica may have named a higher id since Decide. The command is written all
	// the same, for the FSM has not heard of that id; the next id rises above both.
	claimed := m.ledger.HighestID
	if f.Quorum.ID != m.ledger.Last.ref().id {
		m.ledger.HighestID = min(claimed, f.Quorum.ID-1)
	}
	// The shell has had it applied by raft: what refuses it here is a fault of this machine.
	if err := m.ledger.ApplyFormed(f); err != nil {
		panic(fmt.Sprintf("quorum: Form: %v", err))
	}
	m.ledger.HighestID = max(claimed, m.ledger.HighestID)
	m.budget.spend(now)
	q, before := f.Quorum, m.last
	rebuilt := before.ref().id != q.ID
	change, signed := m.changeTo(now, &q), m.signed
	// Q9: a link that held while its quorum stood is good. Kept, it would part its ends at
	// their next break as if it were the second.
	if rebuilt {
		m.forgetLinks(before)
	}
	m.setLast(now, &q)
	if m.change == d.change { // else it came while raft wrote, and waits for the next
		m.change = ""
	}
	for _, note := range d.notes {
		m.event(EventDiverged, "", note)
	}
	for _, s := range d.settled {
		if !s.Standing { // else everybody knew
			m.event(EventSettled, "", s.String())
		}
	}
	m.tell(Event{Kind: EventFormed, Text: fmt.Sprintf("round %d: %s", q.Round, q.Reason), Change: change})
	if rebuilt { // another round of the same members is a part of the change before
		m.beginChange(change, signed)
	}
	// What was said of links and deaths was said of the groups of the quorum before: held
	// against members in new groups it would put out two who train well.
	if rebuilt {
		m.callOrphans()
		for _, r := range slices.Clone(m.suspects) {
			// A broken stream is this lighthouse's own sight, and no new quorum mends it.
			if !r.broken {
				m.clear(r, "a new quorum was formed") // its links are new
			}
		}
		for _, r := range m.order {
			r.accusers = nil
		}
	}
	m.announceLosses(now)
	return q
}

// consume takes the joins that were answered; those that were not begin to wait
// anew, in the next window (else it would be overdue when it opens).
func (m *Machine) consume(now time.Time, d Decision) {
	for _, a := range d.Answers {
		// A later number came while raft wrote: its sender has taken the answered one back.
		if r := m.replicas[a.ReplicaID]; r != nil && r.join != nil && r.join.Number == a.Number {
			m.dropJoin(r)
			r.stale, r.wants = false, time.Time{}
			if r.session {
				r.answered = a.Number // a stream loses nothing: the same number again is old
			}
		}
	}
	if d.Reason.Code == ReasonRepeat {
		return
	}
	for _, r := range m.order {
		if r.join != nil {
			r.join.at = now
		}
	}
}
