package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file keeps Q9: who is kept apart because a link is bad, and for how long.
//
// A link that breaks while its quorum trains may have had bad luck: its ends are
// put together again, and parted when it breaks in their next quorum too. A replica
// that could not even be reached (Accusation.Unreachable) is parted from its
// accuser at once: to try again costs all others a configuration that cannot end.
//
// Who could not reach a peer tries the same beside the job, and says what comes of
// it (Link). While it says that the link is cut the two stay parted, and nobody
// pays for a retry; when all who could not reach the other one say that they can,
// they are let in together. From an end that says nothing nothing is known: then
// time alone puts them together again.
//
//	breaks once                         the ends are put together again
//	breaks in their next quorum too,    apart for LinkRetryAfter, doubling up to LinkRetryMax;
//	or cannot be made                   each word that it is cut prolongs it
//	all who could not make it can       together: at once, the next time after LinkMendAfter,
//	                                    doubling
//	holds while its quorum stands       forgotten

// maxLinks bounds the broken links that are remembered: of 64 replicas that are parted from 64
// others all fit.
const maxLinks = 4096

// link is a link between two members that broke though both lived. It is of two incarnations: a
// replica that is started again may be on another host, and has none (forgetLinks).
type link struct {
	a, b    ReplicaID // a < b
	broke   int       // in quorums running
	parted  int       // how often its ends were, since it last held
	id      int64     // the quorum in which it broke last
	at      time.Time // when
	until   time.Time // kept apart until then; zero: not
	blocked [2]bool   // a could not reach b, b could not reach a; neither took it back
	why     string    // for people
}

// linkAt finds the link of two replicas, and which end the first of them is.
func (m *Machine) linkAt(x, y ReplicaID) (at, end int, found bool) {
	if y < x {
		x, y, end = y, x, 1
	}
	at, found = slices.BinarySearchFunc(m.links, link{a: x, b: y}, compareLinks)
	return at, end, found
}

// linkOf is linkAt, and makes the link if there is room.
func (m *Machine) linkOf(x, y ReplicaID) (l *link, end int) {
	at, end, found := m.linkAt(x, y)
	switch {
	case found:
	// Full of links that broke lately: one more is not held against its ends. If it is cut,
	// that costs one more quorum each time they meet.
	case len(m.links) >= maxLinks:
		return nil, 0
	default:
		m.links = slices.Insert(m.links, at, link{a: min(x, y), b: max(x, y)})
	}
	return &m.links[at], end
}

// strike notes that a link broke in the last quorum, or could not be made.
func (m *Machine) strike(now time.Time, x Accusation) {
	l, end := m.linkOf(x.By, x.Against)
	// There is no room: see linkOf.
	if l == nil {
		return
	}
	// Both ends of one break say so, and each more than once: it counts once in a quorum.
	again := l.count(now, m.last.ID)
	// Until this end says that the link holds (holds), or is silent for long enough.
	if x.Unreachable {
		l.blocked[end], l.why = true, x.Evidence
	}
	// One break may be bad luck: the ends meet again (see above). The other cases are words
	// about a break that has had its effect.
	if apart := again && now.Before(l.until); apart || l.broke == 1 && !x.Unreachable || again && !x.Unreachable {
		return
	}
	wait := doubled(LinkRetryAfter, LinkRetryMax, l.parted)
	l.until = now.Add(wait)
	l.parted++
	text := "from " + string(l.b) + " for " + wait.String()
	if x.Unreachable {
		text += ", or until it holds: " + l.text()
	}
	m.event(EventApart, l.a, text)
}

// count notes that the link broke in a quorum, once, and says whether that was
// known: the other end of it has said so, or it is the same word again. A link that has
// held for ten minutes begins anew (§6): else two breaks of one week would part its ends.
func (l *link) count(now time.Time, quorumID int64) (again bool) {
	if l.id == quorumID {
		return true
	}
	if now.Sub(l.at) >= linkForgotten && now.Sub(l.until) >= linkForgotten {
		l.broke, l.parted = 0, 0 // it has held for long, or never broke
	}
	l.broke++
	l.id, l.at = quorumID, now
	return false
}

// Link takes a replica's word on whether it reaches another one now: one that
// could not, and goes on trying beside the job. After a change of leader it is all
// that is known of the link.
func (m *Machine) Link(now time.Time, r LinkReport) error {
	m.Advance(now)
	r.To = m.resolveName(r.To)
	if err := validateLinkReport(r); err != nil {
		return err
	}
	by, to := m.replicas[r.By], m.replicas[r.To]
	// A lost one is kept out by that; when it is back it is tried again.
	if by == nil || to == nil || !by.session || to.lost || m.client != KindSkerry {
		return nil // news of a replica that is gone, or has not come
	}
	if r.Holds {
		m.holds(now, r)
	} else {
		m.blocks(now, r)
	}
	if at, _, found := m.linkAt(r.By, r.To); found {
		// Not reschedule: reports that come often would put off each look that is due.
		m.soon(m.links[at].until)
	}
	return nil
}

// blocks keeps the ends of a link apart for as long as one of them says that it
// does not reach the other.
func (m *Machine) blocks(now time.Time, r LinkReport) {
	if by, to := m.replicas[r.By], m.replicas[r.To]; by.member && to.member && m.last != nil && !m.fallen {
		return // they are put together: if it fails they will accuse
	}
	l, end := m.linkOf(r.By, r.To)
	if l == nil {
		return
	}
	l.blocked[end], l.why = true, r.Evidence
	if m.last != nil && m.replicas[l.a].member && m.replicas[l.b].member {
		// It fell, and may have by this: an accusation may have been said to a leader
		// that is no more. (Else the link would count as held, and its next break as
		// the first.)
		l.count(now, m.last.ID)
	}
	// It broke in no quorum that this machine knows: its age counts from this word.
	if l.at.IsZero() {
		l.at = now
	}
	// Told when it begins, not with each word that prolongs it.
	if !now.Before(l.until) {
		m.event(EventApart, l.a, "from "+string(l.b)+" until it holds: "+l.text())
	}
	// Each word parts them for another minute: an end that falls silent is tried again then.
	if until := now.Add(LinkRetryAfter); until.After(l.until) {
		l.until = until
	}
}

// holds lets the ends of a link meet again, once neither says any more that it
// does not reach the other: at once the first time, later after a pause that
// doubles, so that a link that comes and goes costs the others less and less.
func (m *Machine) holds(now time.Time, r LinkReport) {
	at, end, found := m.linkAt(r.By, r.To)
	// It says so of a link that it never called cut, or of one that is forgotten.
	if !found || !m.links[at].blocked[end] {
		return
	}
	l := &m.links[at]
	l.blocked[end] = false
	// The other end does not reach this one still; or they are let in together already.
	if l.blocked != [2]bool{} || !now.Before(l.until) {
		return
	}
	l.until = l.at
	// Counted from the break, not from now: an end that takes long to say so has served its time.
	if l.parted > 1 {
		l.until = l.at.Add(doubled(LinkMendAfter, LinkRetryMax, l.parted-2))
	}
	text := "to " + string(l.b)
	if wait := l.until.Sub(now); wait > 0 {
		text += ", together in " + wait.String()
	}
	m.event(EventMended, l.a, text)
	// One of the two may wait outside, and be let in with this.
	m.announceChange(now)
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
		// A new incarnation has links of its own, and may be on another host.
		if a == nil || b == nil || a.lost || b.lost {
			return true
		}
		return l.held(fell)
	})
}

// held says that a quorum had both ends of the link, and nobody said that it broke.
func (l *link) held(in *Quorum) bool {
	// It broke in this very quorum.
	if in == nil || l.id == in.ID {
		return false
	}
	_, a := memberRank(in.Members, l.a)
	_, b := memberRank(in.Members, l.b)
	return a && b
}

// keepsApart says that the ends of a link are not to be in one quorum. Where they are in
// the last one though, because there were too few (Q6), and have not accused each other,
// the link holds, and parting them would replace a quorum that is well (L3).
func (m *Machine) keepsApart(now time.Time, l *link) bool {
	return now.Before(l.until) && !l.held(m.last)
}

// apart says that two replicas are not to be in one quorum.
func (m *Machine) apart(now time.Time, a, b ReplicaID) bool {
	return m.between(now, a, b) != nil
}

// between is the link that keeps two replicas apart; nil: none does.
func (m *Machine) between(now time.Time, a, b ReplicaID) *link {
	if len(m.links) == 0 {
		return nil
	}
	at, _, found := m.linkAt(a, b)
	if !found || !m.keepsApart(now, &m.links[at]) {
		return nil
	}
	return &m.links[at]
}

// cutOff is the link that keeps a replica out of the last quorum: to the first of
// its members from which it is kept apart; nil: none does. It is for those outside: one that a
// member does not reach is no reason to ask (joiner), and is shown as kept apart.
func (m *Machine) cutOff(now time.Time, r *replica) *link {
	// A member is apart from none of the last quorum: they are in it together.
	if len(m.links) == 0 || m.last == nil || r.member {
		return nil
	}
	for _, o := range m.last.Members {
		if l := m.between(now, r.id, o.ReplicaID); l != nil {
			return l
		}
	}
	return nil
}

// text says for people what is the matter with a link.
func (l *link) text() string {
	x, y := l.a, l.b
	if !l.blocked[0] && l.blocked[1] {
		x, y = y, x
	}
	if l.blocked == [2]bool{} {
		return fmt.Sprintf("its link broke in %d quorums running, between %s and %s", l.broke, x, y)
	}
	return fmt.Sprintf("%s does not reach %s: %s", x, y, l.why)
}

// connected drops candidates until no two that are kept apart remain (Q9): who
// has the most broken links goes first, of equals the newcomer, then the one with the
// larger id. Between two sets that do not see each other each member of the smaller
// one has more broken links, so the larger set stays; of equal ones, that with the
// smallest id. Where the members of the last quorum all reach each other no newcomer
// pushes one of them out (L3), however many they are.
//
//	a b c | d e    a, b and c have two bad links each, d and e three: e goes, then d
func (m *Machine) connected(now time.Time, candidates []*replica) []*replica {
	if len(m.links) == 0 {
		return candidates
	}
	rest := slices.Clone(candidates)
	newcomers := false // only they go
	// One at a time: each that goes takes its links along, and others may be well by that.
	for {
		broken, members := m.brokenLinks(now, rest)
		newcomers = newcomers || !members
		worst := -1
		for i, n := range broken {
			if n > 0 && !(newcomers && rest[i].member) && (worst < 0 || worseLinked(n, rest[i], broken[worst], rest[worst])) {
				worst = i
			}
		}
		if worst < 0 {
			return rest
		}
		rest = slices.Delete(rest, worst, worst+1)
	}
}

// worseLinked says that a replica with x broken links, which comes later in the order of
// ids, goes before one with y.
func worseLinked(x int, a *replica, y int, b *replica) bool {
	if x != y {
		return x > y
	}
	return !a.member || b.member
}

// brokenLinks counts, for each of rs, its links to others of them that keep them
// apart, and says whether there is one between two members of the last quorum.
func (m *Machine) brokenLinks(now time.Time, rs []*replica) (broken []int, members bool) {
	broken = make([]int, len(rs))
	for k := range m.links {
		l := &m.links[k]
		i, inA := slices.BinarySearchFunc(rs, l.a, compareReplica)
		j, inB := slices.BinarySearchFunc(rs, l.b, compareReplica)
		if !inA || !inB || !m.keepsApart(now, l) {
			continue
		}
		broken[i]++
		broken[j]++
		members = members || rs[i].member && rs[j].member
	}
	return broken, members
}
