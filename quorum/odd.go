package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file keeps L1 where replicas are alive and misbehave: one that calls other
// collectives than the others (a late-comer of another version), or whose heal
// fails, breaks each quorum that it is in. The others say so with an accusation
// that is no witness of a death. At its second time it is refused, by name, for a
// while that doubles; it comes back by itself. Until it is known who it is, and
// where that is never known, a pause that grows lies between quorums that commit
// nothing.

// AccusationKind says what a replica is accused of.
type AccusationKind uint8

// The kinds of accusation.
const (
	AccusedLink     AccusationKind = iota // its link broke first: a witness of its death
	AccusedOdd                            // it called something else in a collective
	AccusedUnhealed                       // by itself: its heal failed
)

const (
	// RefusedFirst is how long a replica is refused that was odd, or did not heal,
	// in two quorums; it doubles each time, up to RefusedMax.
	RefusedFirst = 2 * time.Second
	RefusedMax   = 10 * time.Minute
	// refusedForgotten is how long after that its name is remembered.
	refusedForgotten = 30 * time.Minute
	// maxOdds and maxRefusals bound what is remembered.
	maxOdds     = 256
	maxRefusals = 256

	// PauseFirst is the pause before the second quorum in a row that follows one
	// which committed nothing; it doubles with each further one, up to PauseMax.
	// The first is free.
	PauseFirst = 250 * time.Millisecond
	PauseMax   = 10 * time.Second
)

// odd is one word about a quorum that broke: that two replicas called different
// things, or, with a and b the same, that one did not heal.
type odd struct {
	a, b ReplicaID
	id   int64
}

// refusal is what is remembered of a name that was refused.
type refusal struct {
	name  string
	times int
	until time.Time
	why   string
}

// complain takes an accusation that says nothing about a death.
func (m *Machine) complain(now time.Time, a Accusation) {
	o := odd{a.By, a.Against, a.QuorumID}
	if o.b < o.a {
		o.a, o.b = o.b, o.a
	}
	if slices.Contains(m.odds, o) || len(m.odds) >= maxOdds {
		return
	}
	m.event(EventAccused, a.Against, fmt.Sprintf("by %s: %s", a.By, a.Evidence))
	if len(m.accused) < MaxHistory {
		m.accused = append(m.accused, a)
	}
	m.odds = append(m.odds, o)
	culprit := a.Against
	if a.Kind == AccusedOdd {
		culprit = m.oddOne(o)
	}
	if r := m.replicas[culprit]; r != nil && (m.refusalOf(culprit) != nil || m.brokenBy(culprit) >= 2) {
		m.refuse(now, r, a)
	}
}

// oddOne finds who of the two in o is the odd one: whom more others differ from,
// in the quorums since the last commit; of equals the one that was refused before,
// then the newcomer, then the larger id.
func (m *Machine) oddOne(o odd) ReplicaID {
	if o.a == o.b {
		return o.a
	}
	differ := func(id ReplicaID) int {
		var from []ReplicaID
		for _, p := range m.odds {
			switch {
			case p.a == p.b:
			case p.a == id:
				from = insertID(from, p.b)
			case p.b == id:
				from = insertID(from, p.a)
			}
		}
		return len(from)
	}
	times := func(id ReplicaID) int {
		if f := m.refusalOf(id); f != nil {
			return f.times
		}
		return 0
	}
	a, b := m.replicas[o.a], m.replicas[o.b]
	if a == nil || b == nil {
		return o.b
	}
	if cmp.Or(cmp.Compare(differ(o.a), differ(o.b)), cmp.Compare(times(o.a), times(o.b)),
		a.admitted.Compare(b.admitted)) > 0 {
		return o.a
	}
	return o.b
}

// brokenBy counts the quorums since the last commit in which id was one of those
// who differed, or did not heal.
func (m *Machine) brokenBy(id ReplicaID) int {
	var seen []int64
	for _, o := range m.odds {
		if (o.a == id || o.b == id) && !slices.Contains(seen, o.id) {
			seen = append(seen, o.id)
		}
	}
	return len(seen)
}

func compareRefusal(f refusal, name string) int { return strings.Compare(f.name, name) }

// refusalOf is what is remembered of a replica's name, nil if nothing.
func (m *Machine) refusalOf(id ReplicaID) *refusal {
	if len(m.refusals) == 0 {
		return nil
	}
	if at, found := slices.BinarySearchFunc(m.refusals, replicaName(id), compareRefusal); found {
		return &m.refusals[at]
	}
	return nil
}

// refuse keeps a replica out for a while.
func (m *Machine) refuse(now time.Time, r *replica, a Accusation) {
	m.refusals = slices.DeleteFunc(m.refusals, func(f refusal) bool { return now.Sub(f.until) >= refusedForgotten })
	name := replicaName(r.id)
	at, found := slices.BinarySearchFunc(m.refusals, name, compareRefusal)
	switch {
	case found && now.Before(m.refusals[at].until):
		return
	case !found && len(m.refusals) >= maxRefusals:
		return
	case !found:
		m.refusals = slices.Insert(m.refusals, at, refusal{name: name})
	}
	f := &m.refusals[at]
	hold := RefusedFirst
	for range f.times {
		hold = min(2*hold, RefusedMax)
	}
	f.times++
	f.until = now.Add(hold)
	f.why = "calls other collectives than the others"
	if a.Kind == AccusedUnhealed {
		f.why = "does not heal"
	}
	m.event(EventRefused, r.id, fmt.Sprintf("%s; not let in for %v: %s", f.why, hold, a.Evidence))
	m.soon(f.until)
}

// refused says that a replica is kept out now.
func (m *Machine) refused(now time.Time, r *replica) bool {
	f := m.refusalOf(r.id)
	return f != nil && now.Before(f.until)
}

// committed forgets, when a quorum commits, who was odd in those before it: the
// members that commit together agree.
func (m *Machine) committed() {
	m.barren = 0
	m.odds = slices.DeleteFunc(m.odds, func(o odd) bool { return o.a != o.b })
}

// healed forgets that a replica did not heal: it has committed with the others.
func (m *Machine) healed(id ReplicaID) {
	if len(m.odds) > 0 {
		m.odds = slices.DeleteFunc(m.odds, func(o odd) bool { return o.a == id && o.b == id })
	}
}

// isBarren says that the last quorum committed nothing, as far as what follows it
// shows, and that q is of the same members: nothing is to be gained by haste. One
// that a death ended, or that is followed by another membership, is another thing.
func (m *Machine) isBarren(q *Quorum) bool {
	return m.last != nil && m.fallen && sameMembers(q.Members, m.last.Members) &&
		highest(q.Cluster, q.Members).Step <= highest(m.last.Cluster, m.last.Members).Step
}

// pauseAfter is how long after its fall the n-th quorum in a row that committed
// nothing is followed.
func pauseAfter(n int) time.Duration {
	if n < 2 {
		return 0
	}
	pause := PauseFirst
	for range min(n-2, 16) {
		pause = min(2*pause, PauseMax)
	}
	return pause
}

// pausedUntil is when the next quorum may follow one that committed nothing.
func (m *Machine) pausedUntil() time.Time { return m.fallenAt.Add(pauseAfter(m.barren + 1)) }
