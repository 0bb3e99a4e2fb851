package quorum

import (
	"fmt"
	"slices"
	"time"
)

// This file restores a last quorum whose members were told views, after a ledger
// was lost (PROTOCOL §4.3). A list of 4,096 in each member's word would be 3 GB in all;
// each brings its own part, and the machine puts the list together. Without this nothing
// of such a quorum was known: joiners waited for ever for its members, which were told
// nothing, and no step under way was settled.
//
// a, b, c and d were told views of quorum 7, min_replicas is 2 (transcript 48_lost_views):
//
//	a, b, c and d tell their parts      {a, b, c, d} is the last quorum, at once
//	a, b and c, then a second passes    {a, b, c} is, and d counts as lost: 7 is not told again
//	d comes later                       it is a member after all: its fall and its fact count
//	a alone, then a second passes       nothing is restored: one alone could be no quorum

// AnswerPart is what one member knows of an answer that was a view. Self comes from the answer,
// not from what the member is by now: the list that is put together is the one that was told.
type AnswerPart struct {
	Self      Member // as it stood in the answer, seat included
	WorldSize int    // number of members: so many parts make the list whole
	// Max is the highest position in the answer. A list put together from parts may lack the
	// members that were there, and with them what "up to date" meant (§4.2, memberClaims).
	Max  Position
	Heal bool // it was to heal
}

// NewLastAnswer is what a member that was told q restates.
func NewLastAnswer(q *Quorum) *LastAnswer {
	l := &LastAnswer{Cluster: q.Cluster, QuorumID: q.ID, Round: q.Round, Members: q.Members}
	if w := q.View; w != nil {
		l.Part = &AnswerPart{Self: w.Self, WorldSize: w.WorldSize, Max: w.Max, Heal: w.Heal}
	}
	return l
}

// gathering is the newest quorum that this machine does not know, as far as its
// members have told their parts. While there is one no first window closes (decideSkerry), and
// it ends when all have told, or by time (gatherUntil): a member that died says nothing.
type gathering struct {
	ref    answerRef
	world  int       // members, by the word of the first
	n      int       // members that told, each once
	since  time.Time // when the first of them did
	newest time.Time // when the newest did
}

// takePart takes one member's part of an answer.
func (m *Machine) takePart(now time.Time, r *replica, l *LastAnswer) {
	// None speaks for another: a part puts its name into the list.
	if l.Part.Self.ReplicaID != r.id {
		return
	}
	// Before anything is restored: accusations name a member of a large quorum by its seat.
	m.tellsSeat(r, l.Part.Self.Seat)
	before := r.told
	r.told = l
	switch ref := l.ref(); {
	case ref == m.last.ref(): // it was restored from the parts of others before this one came
		m.restoreMember(r, l)
	case ref.less(m.last.ref()): // of an older quorum: it may be contested, see listOf
	case m.gather == nil || m.gather.ref.less(ref): // the newest is what the members ran in
		m.gather = &gathering{ref: ref, world: l.Part.WorldSize, since: now, newest: now}
		for _, o := range m.order {
			// Those that told it before count too: they may have been too few then (restoreParts).
			if o.told.ref() == ref {
				m.gather.n++
			}
		}
		m.soon(m.gatherUntil())
	// A hello and a join bring the same part: it counts once. Counted again it would complete the
	// list without the others, and prolong the wait each time.
	case ref == m.gather.ref && before.ref() != ref:
		m.gather.n, m.gather.newest = m.gather.n+1, now
	}
	if m.gather != nil && m.gather.n >= m.gather.world { // C7: all have told, no time is waited for
		m.restoreParts(now)
	}
}

// gatherUntil is when what was told must do: a heartbeat timeout after the newest
// word, for by then a member that lives has told, and a join timeout after the
// first.
func (m *Machine) gatherUntil() time.Time {
	if m.gather == nil {
		return time.Time{}
	}
	return earlier(m.gather.newest.Add(m.config.HeartbeatTimeout), m.gather.since.Add(m.config.JoinTimeout))
}

// gathered restores what was gathered when it must do: time alone has passed (Advance).
func (m *Machine) gathered(now time.Time) {
	if m.gather != nil && !now.Before(m.gatherUntil()) {
		m.restoreParts(now)
	}
}

// restoreParts makes the newest quorum of which enough members told their parts
// (Q3) the last one: all of it, or those of its members that were heard. Who was not
// heard is as good as lost; who comes later is taken in (restoreMember).
func (m *Machine) restoreParts(now time.Time) {
	// Whatever comes of it this wait is over: a job that was lost for the most part begins anew
	// with those who come (L1). What they told stays with them, for a later gathering.
	m.gather = nil
	// Not only what was gathered: of a newer quorum too few may be left, or only one ever took it.
	told := make(map[answerRef]int)
	var ref answerRef
	for _, r := range m.order {
		if r.told == nil {
			continue
		}
		of := r.told.ref()
		// Q3: fewer could not have formed a quorum, so the newest of which enough are here.
		if told[of]++; told[of] >= max(m.config.MinReplicas, 1) && ref.less(of) && m.last.ref().less(of) {
			ref = of
		}
	}
	if ref == (answerRef{}) {
		return
	}
	q := &Quorum{Job: m.ledger.Job, ID: ref.id, Round: ref.round}
	positions := make(map[ReplicaID]Position)
	world := 0
	for _, r := range m.order {
		if r.told == nil || r.told.ref() != ref {
			continue
		}
		l := r.told
		// The largest word counts. By one that is too large the list is incomplete, which costs a
		// new id; by one too small it would be told again, another list under one id (Q2).
		q.Cluster, world = l.Cluster, max(world, l.Part.WorldSize)
		q.Members = append(q.Members, l.Part.Self)
		// setLast takes their positions from the list, which is older.
		positions[r.id] = r.position
	}
	if !anyWhole(q.Members) {
		return // §5: none could give the others a state
	}
	if q.Cluster == "" {
		q.Cluster = m.ledger.Cluster
	}
	// As build made them, of the same members. Those of an incomplete list are told to none
	// (tellable).
	q.Participants = participants(q.Cluster, q.Members)
	q.Reason = fmt.Sprintf("restored from the answers of %d of %d members", len(q.Members), world)
	m.client = KindSkerry
	m.setLast(now, q)
	m.absent = max(world-len(q.Members), 0) // Q2: while there are such, it is not told again
	m.event(EventRestored, "", q.Reason)
	m.callOrphans()
	for id, p := range positions { // they have gone on since the answer (Q10)
		m.notePosition(m.replicas[id], p)
	}
	// Their joins came before it was known that they are members: now a fall ends the quorum.
	for _, r := range slices.Clone(m.order) {
		if r.join != nil && !r.join.held && r.join.until.IsZero() {
			m.arrived(now, r)
		}
	}
	m.announceChange(now)
}

// restoreMember takes in a member of the last quorum, which was restored without it: it is
// a member after all (§4.3). As a joiner its fall would end nothing, and its fact not weigh.
func (m *Machine) restoreMember(r *replica, l *LastAnswer) {
	// Q2: all are known. One more would make another list under the id.
	if m.absent == 0 {
		return
	}
	at, found := memberRank(m.last.Members, r.id)
	// It told its part before: setLast made it a member.
	if found {
		return
	}
	// A quorum is immutable once made, and the shell may have this one (Last).
	q := *m.last
	q.Members = slices.Insert(slices.Clone(q.Members), at, l.Part.Self)
	q.Participants = participants(q.Cluster, q.Members)
	m.last, r.member = &q, true
	m.absent--
	m.notePosition(r, r.position)
}

// listOf is the list of an answer: as it was told, or, of a view, those members
// that brought their parts of the same quorum.
func (m *Machine) listOf(l *LastAnswer) []Member {
	switch {
	case l == nil:
		return nil
	// A part with members beside it has those of the last quorum: Join put them there.
	case l.Part == nil || len(l.Members) > 0:
		return l.Members
	}
	var members []Member
	for _, r := range m.order {
		// In whichever round they were told it: one id is one list (Q2).
		if r.told != nil && r.told.QuorumID == l.QuorumID {
			members = append(members, r.told.Part.Self)
		}
	}
	return members
}

// partOf is a member's part of the quorum of that id, nil if it brought none.
func (l *LastAnswer) partOf(id int64) *AnswerPart {
	if l == nil || l.QuorumID != id {
		return nil
	}
	return l.Part
}

func validatePart(p *AnswerPart) error {
	if p == nil {
		return nil
	}
	if err := validateMember(p.Self); err != nil {
		return err
	}
	// Of a member's own word it is at least itself.
	if p.WorldSize < 1 || p.WorldSize > MaxMembers {
		return invalidf("last answer's world size = %d, want 1 to %d", p.WorldSize, MaxMembers)
	}
	return validatePosition("last answer's max", p.Max)
}
