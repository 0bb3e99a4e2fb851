package quorum_test

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// settle is PROTOCOL §4.2 and §4.6, from the joins that wait: every quorum that
// they name, and in which nothing was settled yet, is settled once.
func (d *dumb) settle(joined []quorum.Join) (out []quorum.Settlement, wait bool) {
	var done []int64
	for _, f := range slices.Backward(d.facts) {
		if f.what != fFormed || slices.Contains(done, f.formed.ID) || d.closed(f.formed.ID) || !d.named(f.formed, joined) {
			continue
		}
		done = append(done, f.formed.ID)
		var here []quorum.Join
		for _, j := range joined {
			if isMember(f.formed, j.Member.ReplicaID) {
				here = append(here, j)
			}
		}
		s, w := d.settleOne(f.formed, here)
		out = append(out, s...)
		wait = wait || w
	}
	// Nobody of the last quorum is here to say what became of its step.
	q, _ := d.last()
	here := slices.ContainsFunc(joined, func(j quorum.Join) bool { return isMember(q, j.Member.ReplicaID) })
	if q != nil && !here && !d.closed(q.ID) {
		wait = wait || d.othersLive(q, nil)
	}
	return out, wait
}

// closed says that a contested step of that quorum, or of a later one, was settled: its
// members have left it.
func (d *dumb) closed(id int64) bool {
	for _, f := range d.facts {
		for _, s := range f.settled {
			if s.QuorumID >= id && !s.Standing {
				return true
			}
		}
	}
	return false
}

// named says that q is the last quorum of one of the joiners.
func (d *dumb) named(q *quorum.Quorum, joined []quorum.Join) bool {
	for _, j := range joined {
		if j.Last != nil && j.Last.QuorumID == q.ID && isMember(q, j.Member.ReplicaID) {
			return true
		}
	}
	return false
}

// settleOne settles q's contested step among its members here.
func (d *dumb) settleOne(q *quorum.Quorum, here []quorum.Join) ([]quorum.Settlement, bool) {
	begun, step := false, int64(0)
	var top quorum.Settlement // of the highest step of q that a member stands on
	for _, j := range here {
		if p := j.Member.Position; p.QuorumID == q.ID && p.Step > top.Step && len(j.LastDigests) > 0 {
			top = quorum.Settlement{Outcome: quorum.Forward, Step: p.Step, QuorumID: q.ID, Digests: j.LastDigests, Standing: true}
		}
		begun = begun || j.Kind != quorum.JoinAsk
		if n := j.Member.Position.Step + 1; d.upToDate(q, j) && (step == 0 || n < step) {
			step = n
		}
	}
	if !begun {
		if _, known := d.settled(top.Step, q.ID); top.Step > 0 && !known { // all are well and only ask
			return []quorum.Settlement{top}, false
		}
		return nil, false
	}
	if step == 0 {
		return nil, d.othersLive(q, here)
	}
	var committed, prepared, below [][]quorum.Digest
	refused := 0
	for _, j := range here {
		switch d.weight(q, j, step) {
		case quorum.Committed:
			committed = append(committed, j.LastDigests)
		case quorum.Prepared:
			prepared = append(prepared, j.Fact.Digests)
		case quorum.Refused:
			refused++
		}
		if p := j.Member.Position; p.QuorumID == q.ID && p.Step == step-1 && len(j.LastDigests) > 0 {
			below = append(below, j.LastDigests)
		}
	}
	s := quorum.Settlement{Step: step, QuorumID: q.ID, Outcome: quorum.Discard}
	before, known := d.settled(step, q.ID)
	switch {
	case known:
		s = before
		s.Standing = false
	case len(committed) > 0:
		s.Outcome, s.Digests = quorum.Forward, committed[0]
	case refused == 0 && len(prepared) > 0 && allEqual(prepared):
		s.Outcome, s.Digests = quorum.Forward, prepared[0]
	case refused == 0 && len(prepared) == 0 && d.othersLive(q, here):
		return nil, true
	}
	if _, known := d.settled(step-1, q.ID); len(below) > 0 && !known { // who stands on a step of q has committed it
		return []quorum.Settlement{{Outcome: quorum.Forward, Step: step - 1, QuorumID: q.ID, Digests: below[0], Standing: true}, s}, false
	}
	return []quorum.Settlement{s}, false
}

// othersLive says that a member of q that is not lost has not joined.
func (d *dumb) othersLive(q *quorum.Quorum, here []quorum.Join) bool {
	for _, m := range q.Members {
		if !d.lost(m.ReplicaID) && !slices.ContainsFunc(here, func(j quorum.Join) bool { return j.Member.ReplicaID == m.ReplicaID }) {
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

// left says that j's member has been in a later quorum than q.
func (d *dumb) left(q *quorum.Quorum, j quorum.Join) bool {
	return j.Last != nil && j.Last.QuorumID > q.ID || j.Member.Position.QuorumID > q.ID
}

// upToDate says that j's member had the step under way, and was not behind
// (§4.2).
func (d *dumb) upToDate(q *quorum.Quorum, j quorum.Join) bool {
	p, top := j.Member.Position, maxPosition(q)
	toHeal := false // and no word of a promise: it may have healed, or not
	for i, m := range q.Members {
		silent := j.Fact.Kind == quorum.NoFact || j.Fact.Kind == quorum.GaveUp
		toHeal = toHeal || m.ReplicaID == j.Member.ReplicaID && (m.Position != top || mustTake(q.Members, i, top)) && silent
	}
	return !d.left(q, j) && !j.Member.Torn && (p.QuorumID == q.ID || p == top && !toHeal)
}

// weight is what j says about (step, q): NoFact if nothing.
func (d *dumb) weight(q *quorum.Quorum, j quorum.Join, step int64) quorum.FactKind {
	p, f := j.Member.Position, j.Fact
	switch {
	case j.Member.Torn: // its ranks are not of one mind
		return quorum.NoFact
	case p.QuorumID == q.ID && p.Step == step:
		return quorum.Committed
	case d.left(q, j):
		return quorum.Refused
	case f.Kind != quorum.NoFact && f.Step == step && f.QuorumID == q.ID:
		return f.Kind
	case d.upToDate(q, j):
		return quorum.Refused
	}
	return quorum.NoFact
}

// decideTorchft is torchft's quorum_compute, with shrink-only before the count.
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
		j, at := d.waiting(id)
		if j == nil {
			allJoined = false
			continue
		}
		chosen = append(chosen, *j)
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	joined, lastLive := chosen, 0
	chosen = d.candidates(chosen)
	whole := q != nil && len(q.Members) > 0
	if q != nil {
		for _, m := range q.Members {
			if d.healthy(m.ReplicaID, now) {
				lastLive++
			}
			whole = whole && slices.ContainsFunc(chosen, func(j quorum.Join) bool { return j.Member.ReplicaID == m.ReplicaID })
		}
	}
	switch {
	case len(chosen) == 0:
		return dumbAnswer{Why: "nobody"}
	case len(chosen) < d.cfg.MinReplicas:
		return dumbAnswer{Why: "too few"}
	case whole:
	case 2*len(joined) <= healthy, q != nil && shrinking(joined) && 2*len(chosen) <= lastLive:
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
