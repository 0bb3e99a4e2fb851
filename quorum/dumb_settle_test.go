package quorum_test

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// settle is PROTOCOL §4.2 and §4.6, from the joins that wait.
func (d *dumb) settle(joined []quorum.Join) (s quorum.Settlement, wait bool) {
	q, _ := d.last()
	if q == nil {
		return s, false
	}
	step := d.contested(q, joined)
	if step == 0 {
		return s, false
	}
	if old, ok := d.settled(step, q.ID); ok {
		return old, false
	}
	s = quorum.Settlement{Step: step, QuorumID: q.ID}
	var committed, prepared [][]quorum.Digest
	refused := 0
	for _, j := range joined {
		switch weight(q, j, step) {
		case quorum.Committed:
			committed = append(committed, toldDigests(j, step, q.ID))
		case quorum.Prepared:
			prepared = append(prepared, j.Fact.Digests)
		case quorum.Refused:
			refused++
		}
	}
	switch {
	case len(committed) > 0:
		s.Outcome, s.Digests = quorum.Forward, committed[0]
	case refused == 0 && len(prepared) > 0 && allEqual(prepared):
		s.Outcome, s.Digests = quorum.Forward, prepared[0]
	case refused == 0 && len(prepared) == 0 && d.othersLive(q, joined):
		return s, true
	default:
		s.Outcome = quorum.Discard
	}
	return s, false
}

// othersLive says that a live member of q has not joined.
func (d *dumb) othersLive(q *quorum.Quorum, joined []quorum.Join) bool {
	for _, id := range d.liveLast() {
		if !slices.ContainsFunc(joined, func(j quorum.Join) bool { return j.Member.ReplicaID == id }) {
			return true
		}
	}
	return false
}

func allEqual(ds [][]quorum.Digest) bool {
	for _, d := range ds {
		if !slices.Equal(d, ds[0]) {
			return false
		}
	}
	return true
}

// upToDate says that j's member was not healing when q fell (§4.2).
func upToDate(q *quorum.Quorum, j quorum.Join) bool {
	p := j.Member.Position
	return isMember(q, j.Member.ReplicaID) && (p.QuorumID == q.ID || p == maxPosition(q))
}

// contested is the lowest step under way, 0 if none was.
func (d *dumb) contested(q *quorum.Quorum, joined []quorum.Join) int64 {
	lowest, begun := int64(0), false
	for _, j := range joined {
		if !upToDate(q, j) {
			continue
		}
		if n := j.Member.Position.Step + 1; lowest == 0 || n < lowest {
			lowest = n
		}
	}
	for _, j := range joined {
		begun = begun || lowest != 0 && weight(q, j, lowest) != quorum.NoFact
	}
	if !begun {
		return 0
	}
	return lowest
}

// weight is what j says about (step, q): NoFact if nothing.
func weight(q *quorum.Quorum, j quorum.Join, step int64) quorum.FactKind {
	p, f := j.Member.Position, j.Fact
	switch {
	case !isMember(q, j.Member.ReplicaID):
		return quorum.NoFact
	case p.QuorumID == q.ID && p.Step >= step:
		return quorum.Committed
	case f.Kind != quorum.NoFact && f.Step == step && f.QuorumID == q.ID:
		return f.Kind
	case j.Kind == quorum.JoinFall && upToDate(q, j) && p.Step+1 == step:
		return quorum.Refused
	}
	return quorum.NoFact
}

// toldDigests are the digests of a committed step: of the last step committed,
// or of the fact, if it says committed.
func toldDigests(j quorum.Join, step, quorumID int64) []quorum.Digest {
	if p := j.Member.Position; p.Step == step && p.QuorumID == quorumID {
		return j.LastDigests
	}
	return j.Fact.Digests
}

// decideTorchft is facts/torchft.md §2, with shrink-only before the count.
func (d *dumb) decideTorchft(now time.Time) dumbAnswer {
	q, _ := d.last()
	var chosen []quorum.Join
	healthy, first := 0, time.Time{}
	allJoined := true
	for _, id := range d.ids() {
		if !d.healthy(id, now) {
			continue
		}
		healthy++
		j, ok := d.waiting(id)
		if !ok {
			allJoined = false
			continue
		}
		chosen = append(chosen, j)
		if at := d.joinedAt(id); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	chosen = d.candidates(chosen)
	whole := q != nil && len(q.Members) > 0
	if q != nil {
		for _, m := range q.Members {
			whole = whole && slices.ContainsFunc(chosen, func(j quorum.Join) bool { return j.Member.ReplicaID == m.ReplicaID })
		}
	}
	switch {
	case len(chosen) == 0:
		return dumbAnswer{Why: "nobody"}
	case len(chosen) < d.cfg.MinReplicas:
		return dumbAnswer{Why: "too few"}
	case whole:
	case 2*len(chosen) <= healthy:
		return dumbAnswer{Why: "no majority"}
	case !allJoined && now.Sub(first) < d.cfg.JoinTimeout:
		return dumbAnswer{Why: "stragglers"}
	}
	a := dumbAnswer{Ready: true}
	top := int64(0)
	for _, j := range chosen {
		a.Members = append(a.Members, j.Member.ReplicaID)
		a.Positions = append(a.Positions, j.Member.Position)
		top = max(top, j.Member.Position.Step)
		a.NewID = a.NewID || j.Member.CommitFailures > 0
	}
	for _, j := range chosen {
		if j.Member.Position.Step == top {
			a.Participants = append(a.Participants, j.Member.ReplicaID)
		}
	}
	a.NewID = a.NewID || q == nil || !slices.EqualFunc(a.Members, q.Members, func(id quorum.ReplicaID, m quorum.Member) bool {
		return id == m.ReplicaID
	})
	return a
}

// healthy is torchft's rule: a heartbeat strictly younger than the timeout. A
// join is one too.
func (d *dumb) healthy(id quorum.ReplicaID, now time.Time) bool {
	for _, f := range slices.Backward(d.facts) {
		if f.id == id && (f.what == fBeat || f.what == fJoin) {
			return now.Sub(f.at) < d.cfg.HeartbeatTimeout
		}
	}
	return false
}

// joinedAt is when id's waiting join came.
func (d *dumb) joinedAt(id quorum.ReplicaID) time.Time {
	for _, f := range slices.Backward(d.facts) {
		if f.id == id && f.what == fJoin {
			return f.at
		}
	}
	return time.Time{}
}
