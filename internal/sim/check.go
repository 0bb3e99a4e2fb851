package sim

import (
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// checker watches from outside: it knows what every replica holds, and never
// asks the code under test whether it is right.
type checker struct {
	bytes   map[quorum.Position]uint64 // of every position ever held
	dropped map[stepKey]bool           // steps that a prepared member discarded
	done    map[stepKey]bool           // steps that anyone committed
	settled map[stepKey]quorum.Settlement
	excused map[stepKey]bool // discarded with nothing but gave-ups in sight (C5's exception)
	lists   map[int64][]quorum.ReplicaID
	lost    map[quorum.ReplicaID]bool
	high    [2]int64 // id and round of the newest quorum

	commits, crashes, forwarded, discarded int
}

func newChecker() *checker {
	return &checker{
		bytes: map[quorum.Position]uint64{{}: 0}, dropped: map[stepKey]bool{}, done: map[stepKey]bool{},
		settled: map[stepKey]quorum.Settlement{}, excused: map[stepKey]bool{},
		lists: map[int64][]quorum.ReplicaID{}, lost: map[quorum.ReplicaID]bool{},
	}
}

// hold checks C1 whenever a replica comes to a position.
func (c *checker) hold(m *member) {
	if old, ok := c.bytes[m.pos]; ok && old != m.bytes {
		m.w.fail("C1", "%s is at %v with bytes %x, others had %x", m.id, m.pos, m.bytes, old)
	}
	c.bytes[m.pos] = m.bytes
}

// commit checks C1, and C5 against those who have discarded.
func (c *checker) commit(m *member) {
	c.commits++
	k := stepKey{q: m.pos.QuorumID, step: m.pos.Step}
	if c.dropped[k] && !c.excused[k] {
		m.w.fail("C5", "%s commits %v, which a prepared member has discarded", m.id, m.pos)
	}
	c.done[k] = true
	c.hold(m)
}

// discards checks C5 when a member drops a claim.
func (c *checker) discards(m *member) {
	if m.fact.Kind != quorum.Prepared {
		return
	}
	k := stepKey{q: m.fact.QuorumID, step: m.fact.Step}
	p := quorum.Position{Cluster: "x", Step: k.step, QuorumID: k.q}
	if c.done[k] && c.bytes[p] == m.pend && !c.excused[k] {
		m.w.fail("C5", "%s discards %d@%d, which somebody committed", m.id, k.step, k.q)
	}
	if b, ok := c.bytes[p]; !ok || b == m.pend {
		c.dropped[k] = true
	}
}

// heed keeps whom the machine calls lost.
func (c *checker) heed(events []quorum.Event) {
	for _, e := range events {
		switch e.Kind {
		case quorum.EventLost:
			c.lost[e.ReplicaID] = true
		case quorum.EventOpened, quorum.EventReturned:
			delete(c.lost, e.ReplicaID)
		}
	}
}

// formed checks Q1 to Q5 and C6 on what the lighthouse formed.
func (c *checker) formed(w *world, last, q *quorum.Quorum, d quorum.Decision) {
	now := [2]int64{q.ID, q.Round}
	switch {
	case d.Changed && slices.Compare(now[:], c.high[:]) <= 0:
		w.fail("Q1", "%v after %v", now, c.high)
	case !d.Changed && now != c.high:
		w.fail("Q1", "unchanged, but %v after %v", now, c.high)
	}
	c.high = now
	members := ids(q)
	if len(members) < w.o.Min {
		w.fail("Q3", "%v, min %d", members, w.o.Min)
	}
	if old, ok := c.lists[q.ID]; ok && !slices.Equal(old, members) {
		w.fail("Q2", "id %d had %v, now %v", q.ID, old, members)
	}
	c.lists[q.ID] = members
	for _, s := range append(d.Command(0, quorum.Token{}, 1).Settled, q.Settlement) {
		c.settle(w, s)
	}
	if !d.Changed {
		return
	}
	whole := last != nil
	for _, id := range members {
		if _, ok := w.lh.joins[id]; !ok {
			w.fail("Q4", "%s has not joined", id)
		}
		if c.lost[id] {
			w.fail("Q7", "%s is known dead", id)
		}
	}
	live := 0
	if last != nil {
		for _, id := range ids(last) {
			whole = whole && slices.Contains(members, id)
			if !c.lost[id] {
				live++
			}
		}
	}
	// At least the live members of the last quorum are live; that joiners count
	// too is checked where sessions are known exactly, in quorum's explorer.
	if last != nil && !whole && 2*len(members) <= live {
		w.fail("Q5", "%d members, %d live in the last quorum", len(members), live)
	}
}

// settle checks C6.
func (c *checker) settle(w *world, s quorum.Settlement) {
	if s.Outcome == quorum.NothingToSettle {
		return
	}
	k := stepKey{q: s.QuorumID, step: s.Step}
	if old, ok := c.settled[k]; ok {
		if old.Outcome != s.Outcome || !slices.Equal(old.Digests, s.Digests) {
			w.fail("C6", "%v, was %v", s, old)
		}
		return
	}
	c.settled[k] = s
	switch {
	case s.Outcome == quorum.Forward && !s.Standing:
		c.forwarded++
	case s.Outcome == quorum.Discard:
		c.discarded++
		c.excused[k] = !knows(w, k)
	}
}

// knows says that a join at the lighthouse committed, prepared or refused a
// step.
func knows(w *world, k stepKey) bool {
	for _, j := range w.lh.joins {
		p, f := j.Member.Position, j.Fact
		if p.Step == k.step && p.QuorumID == k.q {
			return true
		}
		if f.Step == k.step && f.QuorumID == k.q && (f.Kind == quorum.Prepared || f.Kind == quorum.Refused) {
			return true
		}
	}
	return false
}
