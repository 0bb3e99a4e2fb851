package quorum

// This file is C1 at rest: replicas at one position hold the same bytes, also if a
// bit of a parameter flips, an optimizer is not deterministic, or a heal is wrong.
// In every so many steps each rank sums up a slice of its state, which is the same
// slice at all replicas, and the digest travels in its ballot. Ballots of different
// states are a no for everybody; who differs is named and heals.

const (
	// DefaultParityEvery is in how many steps one compares states.
	DefaultParityEvery = 8
	// ParityBytes is how much of a rank's state one comparison covers.
	ParityBytes = 8 << 20
)

// ParityDue says whether the ballots of a step, by the number that it would
// become, compare states. It depends on nothing else, so that all replicas compare
// the same.
func ParityDue(step int64, every int) bool { return every > 0 && step%int64(every) == 0 }

// Slice is a part of a rank's state, which is taken for one run of bytes.
type Slice struct {
	Index, Count int64 // this one, of how many
	From, To     int64 // bytes [From, To)
}

// ValidParityEvery says whether a job may compare states in every so many steps: a
// power of two, or never, which is 0 or less.
func ValidParityEvery(every int) bool { return every&(every-1) == 0 || every < 0 }

// ParitySlice is what a step's ballots compare of a state of total bytes: slices
// take turns, so that each is compared once in ParityBound steps. Which one is a
// matter of the step's number alone. Their number is odd: then they take turns in
// every so many steps by each power of two. (By the number of comparisons, replicas
// with different settings took different slices, and a healthy one was named.)
func ParitySlice(step, total int64) Slice {
	count := max((total+ParityBytes-1)/ParityBytes, 1) | 1
	size := (total + count - 1) / count
	from := min(step%count*size, total)
	return Slice{Index: step % count, Count: count, From: from, To: min(from+size, total)}
}

// WholeSlice is all of a state: what a rank with RankConfig.ParityWhole compares.
func WholeSlice(total int64) Slice { return Slice{Count: 1, To: total} }

// ParityBound is after how many commits of one quorum at most a byte that differs
// is found: as many as it takes to compare each slice once. A step that only the
// settlement committed compared nothing.
func ParityBound(every int, total int64) int64 {
	return int64(every) * ParitySlice(0, total).Count
}

// judgeStates compares the states that ballots speak of. Those of members that
// heal speak of none, and ones at another position are another matter. A ballot
// that is not ok counts: a flipped bit may be why.
//
// Two that differ are a no whatever else came: a commit needs all ballots, so
// whoever might have committed saw the same two. The quorum stands until all have
// asked for the next, as after any no for which every ballot came. (Were it to fall,
// the first that judges would break the group of those that still wait for a ballot; and
// that may be, each time anew, the one that has to learn that it differs.) Names are given
// only where all ballots came, for then all members give the same ones: those not of the
// strict majority, and without one those that differ from the first. (With two replicas nobody
// can know which is right. That both go on from one state is what counts.)
// A slice is compared with slices, a whole state with whole ones: replicas with different
// settings have no digest in common, and healthy ones would be named.
func judgeStates(me *Ballot, ballots []*Ballot, v *Verdict) (differ bool) {
	v.Majority = true
	for _, whole := range [...]bool{false, true} {
		var told []int
		for rank, b := range ballots {
			if b.meets(me) && !b.healing() && b.State.Valid && b.Whole == whole &&
				(len(told) == 0 || b.Position == ballots[told[0]].Position) {
				told = append(told, rank)
			}
		}
		names, majority := otherStates(told, ballots)
		differ = differ || len(names) > 0
		v.Differ, v.Majority = append(v.Differ, names...), v.Majority && majority
	}
	if len(v.Missing) > 0 {
		v.Differ = nil // a no, and no names: others may have seen other ballots
	}
	v.Majority = v.Majority && len(v.Differ) > 0
	return differ
}

// otherStates are those of told whose states are not that of the others; majority says
// that the others are most of told.
func otherStates(told []int, ballots []*Ballot) (names []int, majority bool) {
	state := func(rank int) Digest { return ballots[rank].State }
	if names = oddRanks(told, state); len(names) > 0 || same(told, state) {
		return names, true
	}
	for _, rank := range told {
		if state(rank) != state(told[0]) {
			names = append(names, rank)
		}
	}
	return names, false
}
