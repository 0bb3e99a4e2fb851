package quorum

import (
	"cmp"
	"slices"
	"time"
)

// maxLinks bounds the broken links that are remembered.
const maxLinks = 4096

// link is a link between two members that broke though both lived.
type link struct {
	a, b    ReplicaID // a < b
	strikes int
	id      int64     // the quorum in which it broke last
	until   time.Time // kept apart until then; zero: not
}

// strike notes that a link broke in the last quorum. The first time, the two
// are put together again; if it breaks in their next quorum too they are kept
// apart (Q9), for longer each time.
func (m *Machine) strike(now time.Time, a, b ReplicaID) {
	if b < a {
		a, b = b, a
	}
	at, found := slices.BinarySearchFunc(m.links, link{a: a, b: b}, compareLinks)
	if !found {
		if len(m.links) < maxLinks {
			m.links = slices.Insert(m.links, at, link{a: a, b: b, strikes: 1, id: m.last.ID})
		}
		return
	}
	l := &m.links[at]
	if l.id == m.last.ID {
		return // the other end of it, or the same word again
	}
	wait := LinkRetryAfter
	for range l.strikes - 1 {
		wait = min(2*wait, LinkRetryMax)
	}
	l.id, l.until = m.last.ID, now.Add(wait)
	l.strikes++
	m.event(EventApart, a, "from "+string(b)+" for "+wait.String())
}

func compareLinks(x, y link) int {
	return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
}

// forgetLinks drops, when a new quorum follows, what no longer matters: a link
// with an end that is gone, and one that held in the quorum that fell, be it that
// its ends had met because there were too few without (Q6).
func (m *Machine) forgetLinks(fell *Quorum) {
	if fell == nil {
		return
	}
	m.links = slices.DeleteFunc(m.links, func(l link) bool {
		a, b := m.replicas[l.a], m.replicas[l.b]
		if a == nil || b == nil || a.lost || b.lost {
			return true
		}
		return l.held(fell)
	})
}

// held says that a quorum had both ends of the link, and nobody said that it broke.
func (l *link) held(in *Quorum) bool {
	if in == nil || l.id == in.ID {
		return false
	}
	_, a := memberRank(in.Members, l.a)
	_, b := memberRank(in.Members, l.b)
	return a && b
}

// parts says that the ends of a link are not to be in one quorum.
func (m *Machine) parts(now time.Time, l *link) bool {
	return now.Before(l.until) && !l.held(m.last)
}

// apart says that two replicas are not to be in one quorum.
func (m *Machine) apart(now time.Time, a, b ReplicaID) bool {
	if len(m.links) == 0 {
		return false
	}
	if b < a {
		a, b = b, a
	}
	at, found := slices.BinarySearchFunc(m.links, link{a: a, b: b}, compareLinks)
	return found && m.parts(now, &m.links[at])
}

// connected drops candidates until no two that are kept apart remain (Q9): who
// has the most broken links goes first, of equals the one with the larger id.
// Between two sets that do not see each other each member of the smaller one has
// more broken links, so the larger set stays; of equal ones, that with the
// smallest id.
func (m *Machine) connected(now time.Time, candidates []*replica) []*replica {
	if len(m.links) == 0 {
		return candidates
	}
	rest := slices.Clone(candidates)
	for {
		broken := make([]int, len(rest))
		worst := -1
		for k := range m.links {
			l := &m.links[k]
			i, inA := slices.BinarySearchFunc(rest, l.a, compareReplica)
			j, inB := slices.BinarySearchFunc(rest, l.b, compareReplica)
			if !inA || !inB || !m.parts(now, l) {
				continue
			}
			broken[i]++
			broken[j]++
		}
		for i, n := range broken {
			if n > 0 && (worst < 0 || n >= broken[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return rest
		}
		rest = slices.Delete(rest, worst, worst+1)
	}
}
