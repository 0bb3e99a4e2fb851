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
	Digest       Digest
}

// healing says that the member was behind when the step began.
func (b *Ballot) healing() bool { return b.Healed || b.Unhealed }

// ok says that the ballot does not stand in the way of a commit. A member that
// heals owes the others its part in the exchange and nothing else.
func (b *Ballot) ok() bool { return b.OK || b.healing() && b.Reduced }

// Verdict is what one step's ballots mean to one rank.
type Verdict struct {
	Vote         Vote
	ChangeWanted bool
	Missing      []int // ranks whose ballot never came
	NotOK        []int // ranks whose ballot says not ok, or stands at another position
	Odd          []int // ranks whose digest differs from the majority's; empty if there is no majority
	Broken       bool  // ballots are missing, or positions or digests differ: this group is not well
	Reason       string
}

// JudgeBallots judges one step's ballots of all members, by rank; nil means
// that a ballot never came, and a ballot of another quorum or round counts as
// one that never came. own is this rank.
//
// All ok and equal is a yes. Any that is not ok, or differs, is a no: then
// nobody can have committed, for a commit needs all of them. Otherwise some are
// missing, their senders may have seen all and committed, and this rank is
// prepared.
func JudgeBallots(own int, ballots []*Ballot) Verdict {
	if own < 0 || own >= len(ballots) || ballots[own] == nil {
		panic(fmt.Sprintf("quorum: JudgeBallots(%d) of %d without the own ballot", own, len(ballots)))
	}
	me := ballots[own]
	var v Verdict
	var came []int
	apart := false // two members stand at different positions: they have no step in common
	for rank, b := range ballots {
		switch {
		case b == nil || b.QuorumID != me.QuorumID || b.Round != me.Round:
			v.Missing = append(v.Missing, rank)
			continue
		case !b.ok():
			v.NotOK = append(v.NotOK, rank)
		case !b.healing() && !me.healing() && b.Position != me.Position:
			v.NotOK, apart = append(v.NotOK, rank), true
		default:
			came = append(came, rank)
		}
		v.ChangeWanted = v.ChangeWanted || b.ChangeWanted || b.Unhealed
	}
	differ := false
	if len(came) > 0 {
		first := ballots[came[0]].Digest
		differ = slices.ContainsFunc(came, func(r int) bool { return ballots[r].Digest != first })
	}
	if differ {
		v.Odd = oddRanks(ballots, came)
	}
	v.Broken = apart || differ || len(v.Missing) > 0
	v.Vote, v.Reason = judge(me, v, differ)
	return v
}

func judge(me *Ballot, v Verdict, differ bool) (Vote, string) {
	switch {
	case len(v.NotOK) > 0:
		return VoteNo, fmt.Sprintf("not ok at ranks %v", v.NotOK)
	case differ && len(v.Odd) > 0:
		return VoteNo, fmt.Sprintf("digests differ at ranks %v", v.Odd)
	case differ:
		return VoteNo, "digests differ, no majority"
	case me.Unhealed:
		return VoteBehind, "not healed"
	case len(v.Missing) > 0:
		return VotePrepared, fmt.Sprintf("no ballot from ranks %v", v.Missing)
	}
	return VoteYes, "all ballots ok and equal"
}

// oddRanks names the ranks whose digest is not that of a strict majority of
// those that came; none if there is no such majority.
func oddRanks(ballots []*Ballot, came []int) []int {
	for _, candidate := range came {
		var odd []int
		for _, r := range came {
			if ballots[r].Digest != ballots[candidate].Digest {
				odd = append(odd, r)
			}
		}
		if 2*len(odd) < len(came) {
			return odd
		}
	}
	return nil
}
