package quorum

import "slices"

// crowd is the size of a quorum from which what all members were told is not said
// again. When a quorum of n falls, each of n joins says so, mostly in the same
// words: without this n times n messages. Below, each is passed on: who said it is
// of interest to people, and costs nothing.
const crowd = 64

const (
	// maxLostTold is how many losses the members of a crowd are told one by one.
	// The first ends their quorum; of thousands more nobody needs to hear.
	maxLostTold = 64
	// maxFactsTold bounds the facts that are remembered as told: members who ran
	// together know one of two or three things.
	maxFactsTold = 16
)

// announced is what all members of the last quorum have been told about its end. One that
// could not be told then, and comes back, is told alone (tellFallen).
type announced struct {
	facts []Fact
	lost  int
}

// alreadyTold says that the members of a crowd were told of this fact, and otherwise
// notes that they are now. Those who have not joined yet get fewer and fewer: each
// was among those who were told the first time. Of a thousand members that say the
// same the first tells 999 of it, and the others none.
func (m *Machine) alreadyTold(f Fact) bool {
	if len(m.last.Members) < crowd {
		return false
	}
	if slices.ContainsFunc(m.told.facts, func(g Fact) bool { return sameFact(f, g) }) {
		return true
	}
	if len(m.told.facts) < maxFactsTold {
		m.told.facts = append(m.told.facts, f)
	}
	return false
}

// lostEnough says that the members of a crowd were told of enough losses.
func (m *Machine) lostEnough() bool {
	if m.last == nil || len(m.last.Members) < crowd {
		return false
	}
	m.told.lost++
	return m.told.lost > maxLostTold
}
