package quorum

import (
	"fmt"
	"slices"
)

// Ballot is one member's word on one step, for one group rank, to all members.
// An ok ballot is a promise: after it the rank does not discard by itself.
type Ballot struct {
	QuorumID     int64
	Round        int64
	Position     Position // before the step
	OK           bool     // every local check passed
	Reduced      bool     // a healing member's part in the exchange was done: counts as ok
	Healed       bool     // it healed in this step
	Unhealed     bool     // it has not healed: behind, not refused
	ChangeWanted bool
	Digest       Digest // of what was reduced
	State        Digest // of a slice of the state at Position; none in most steps, see ParityDue
	Whole        bool   // State is of all of the state, not of a slice
}

// healing says that the member was behind when the step began.
func (b *Ballot) healing() bool { return b.Healed || b.Unhealed }

// ok says that the ballot does not stand in the way of a commit. A member that
// heals owes the others its part in the exchange and nothing else.
func (b *Ballot) ok() bool { return b.OK || b.healing() && b.Reduced }

// meets says that the ballot came, and is of the same quorum and round as me.
func (b *Ballot) meets(me *Ballot) bool {
	return b != nil && b.QuorumID == me.QuorumID && b.Round == me.Round
}

// Verdict is what one step's ballots mean to one rank.
type Verdict struct {
	Vote         Vote
	ChangeWanted bool
	Missing      []int // ranks whose ballot never came
	NotOK        []int // ranks whose ballot says not ok, or stands at another position
	Odd          []int // ranks whose digest differs from the majority's; empty if there is no majority
	Differ       []int // ranks whose state differs: they heal from the others. Only if all ballots came
	Majority     bool  // with Differ: the others are a strict majority of those who told; else the first is right
	Broken       bool  // ballots are missing, or positions or digests differ: this group is not well
	Reason       string
}

// Yes says that nothing stands in the way of a commit.
func (v *Verdict) Yes() bool { return v.Vote == VoteYes }

// JudgeBallots judges one step's ballots of all members, by rank; nil means
// that a ballot never came, and a ballot of another quorum or round counts as
// one that never came. own is this rank.
//
// All ok and equal is a yes. Any that is not ok, or differs, or speaks of another
// state, is a no: then none can have committed, for a commit needs all of them (§2).
// Otherwise some are missing, their senders may have seen all and committed, and this
// rank is prepared.
//
//	all came, ok and equal                       yes        the quorum stands
//	all came, one not ok, the others equal       no         stands: all know of the discard (§2.5)
//	all came, states differ                      no         stands, and a change is wanted (§2.7)
//	digests differ, or positions                 no         falls
//	some missing, and one not ok                 no         falls
//	some missing, the others ok and equal        prepared   falls
//	this rank has not healed, and no no          behind     a change is wanted (§5); stands if all came
func JudgeBallots(own int, ballots []*Ballot) Verdict {
	if own < 0 || own >= len(ballots) || ballots[own] == nil {
		panic(fmt.Sprintf("quorum: JudgeBallots(%d) of %d without the own ballot", own, len(ballots)))
	}
	me := ballots[own]
	var v Verdict
	var came []int
	// §2.5: a no for which every ballot came, at one position and with equal digests, lets the
	// quorum stand. Otherwise it falls (Broken).
	apart := false // two members stand at different positions: they have no step in common
	at := common(me, ballots)
	for rank, b := range ballots {
		switch {
		// §2.2: one of another round belongs to another answer, in which others may take part
		// and the divisor be another.
		case !b.meets(me):
			v.Missing = append(v.Missing, rank)
			continue
		case !b.ok():
			v.NotOK = append(v.NotOK, rank)
		// C1: a step upon two states would be one position with two states.
		case !b.healing() && b.Position != at:
			v.NotOK, apart = append(v.NotOK, rank), true
		default:
			came = append(came, rank)
		}
		v.ChangeWanted = v.ChangeWanted || b.ChangeWanted || b.Unhealed
	}
	digest := func(rank int) Digest { return ballots[rank].Digest }
	differ := !same(came, digest)
	if differ {
		v.Odd = oddRanks(came, digest)
	}
	states := judgeStates(me, ballots, &v)
	v.ChangeWanted = v.ChangeWanted || states
	v.Broken = apart || differ || len(v.Missing) > 0
	v.Vote, v.Reason = judge(me, v, differ, states)
	return v
}

// common is the position that the members which do not heal must have in common:
// this rank's, and for one that heals itself the first that it is told of. (Were
// those who heal to look at none, one that has healed would commit a step that the
// others, who see that they are apart, refuse.)
func common(me *Ballot, ballots []*Ballot) Position {
	if !me.healing() {
		return me.Position
	}
	for _, b := range ballots {
		if b.meets(me) && !b.healing() {
			return b.Position
		}
	}
	return me.Position
}

// judge is the vote (§2.5), a no first: of whatever else is missing, it says that there was
// no commit. Missing ballots are never a no, for their senders may have seen all (C5).
func judge(me *Ballot, v Verdict, differ, states bool) (Vote, string) {
	switch {
	// §2.7: all ballots came, and all members name the same replicas. A commit needs all
	// ballots, so whoever might have committed saw the same two digests.
	case len(v.Differ) > 0:
		return VoteNo, fmt.Sprintf("states differ at ranks %v", v.Differ)
	// §2.7: none is named, for others may have seen other ballots.
	case states:
		return VoteNo, fmt.Sprintf("states differ, no ballot from ranks %v", v.Missing)
	// §2: without the promise of each member there was no commit, and will be none.
	case len(v.NotOK) > 0:
		return VoteNo, fmt.Sprintf("not ok at ranks %v", v.NotOK)
	// C1: what was reduced differs, so would the states after the step.
	case differ && len(v.Odd) > 0:
		return VoteNo, fmt.Sprintf("digests differ at ranks %v", v.Odd)
	case differ:
		return VoteNo, "digests differ, no majority"
	case me.Unhealed:
		// §5: behind, not refused: the others may commit, and this one wants other donors.
		return VoteBehind, "not healed"
	// §2.4, C5: whose ballot is missing here may have seen all of them, and have committed.
	// Only the settlement can tell.
	case len(v.Missing) > 0:
		return VotePrepared, fmt.Sprintf("no ballot from ranks %v", v.Missing)
	}
	return VoteYes, "all ballots ok and equal"
}

// same says that all ranks' digests are equal.
func same(ranks []int, of func(rank int) Digest) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool { return of(r) != of(ranks[0]) })
}

// oddRanks names the ranks whose digest is not that of a strict majority of
// those that came; none if there is no such majority. Of digests d, d and e rank 2 is odd; of
// d and e, or of d, d, e and e, none is, for nothing says which are right.
func oddRanks(came []int, of func(rank int) Digest) []int {
	for _, candidate := range came {
		var odd []int
		for _, r := range came {
			if of(r) != of(candidate) {
				odd = append(odd, r)
			}
		}
		if 2*len(odd) < len(came) {
			return odd
		}
	}
	return nil
}
