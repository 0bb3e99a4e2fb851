package quorum_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/quorum"
)

// Short ballots: what differs from a good one of quorum 7 at 4@6.
func ballot(changes ...func(*quorum.Ballot)) *quorum.Ballot {
	b := &quorum.Ballot{
		QuorumID: 7, Round: 2, Position: quorum.Position{Cluster: "x", Step: 4, QuorumID: 6}, OK: true, Reduced: true,
		Digest: quorum.Digest{Valid: true, Sum: 11},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

func notOK(b *quorum.Ballot)    { b.OK = false }
func other(b *quorum.Ballot)    { b.Digest.Sum = 12 }
func third(b *quorum.Ballot)    { b.Digest.Sum = 13 }
func none(b *quorum.Ballot)     { b.Digest = quorum.Digest{} }
func wants(b *quorum.Ballot)    { b.ChangeWanted = true }
func oldRound(b *quorum.Ballot) { b.Round = 1 }
func oldID(b *quorum.Ballot)    { b.QuorumID = 6 }
func elsewhere(b *quorum.Ballot) {
	b.Position.QuorumID = 5
}
func healed(b *quorum.Ballot) {
	b.Healed = true
}
func unhealed(b *quorum.Ballot) {
	b.OK, b.Unhealed, b.Position = false, true, quorum.Position{}
}
func state(sum uint32) func(*quorum.Ballot) {
	return func(b *quorum.Ballot) { b.State = quorum.Digest{Valid: true, Sum: sum} }
}
func whole(sum uint32) func(*quorum.Ballot) {
	return func(b *quorum.Ballot) { b.State, b.Whole = quorum.Digest{Valid: true, Sum: sum}, true }
}
func unreduced(b *quorum.Ballot) { b.OK, b.Reduced = false, false }

func TestJudgeBallots(t *testing.T) {
	t.Parallel()
	good := ballot()
	type ballots = []*quorum.Ballot
	for _, c := range []struct {
		name    string
		ballots ballots // own is rank 0
		want    quorum.Verdict
	}{
		{"all ok and equal", ballots{good, good, good}, quorum.Verdict{Vote: quorum.VoteYes}},
		{"alone", ballots{good}, quorum.Verdict{Vote: quorum.VoteYes}},
		{"no digest equals no digest", ballots{ballot(none), ballot(none)}, quorum.Verdict{Vote: quorum.VoteYes}},
		{"no digest equals nothing else", ballots{ballot(none), good}, quorum.Verdict{Vote: quorum.VoteNo, Broken: true}},
		{"one never came", ballots{good, nil, good}, quorum.Verdict{Vote: quorum.VotePrepared, Broken: true, Missing: []int{1}}},
		{"one of an old round", ballots{good, ballot(oldRound)},
			quorum.Verdict{Vote: quorum.VotePrepared, Broken: true, Missing: []int{1}}},
		{"one of an old quorum says no", ballots{good, ballot(oldID, notOK)},
			quorum.Verdict{Vote: quorum.VotePrepared, Broken: true, Missing: []int{1}}},
		{"one not ok", ballots{good, good, ballot(notOK, unreduced)},
			quorum.Verdict{Vote: quorum.VoteNo, NotOK: []int{2}}},
		{"the own not ok", ballots{ballot(notOK), good}, quorum.Verdict{Vote: quorum.VoteNo, NotOK: []int{0}}},
		{"a no outweighs a missing one", ballots{good, nil, ballot(notOK)},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, Missing: []int{1}, NotOK: []int{2}}},
		{"the odd one of three is named", ballots{good, ballot(other), good},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, Odd: []int{1}}},
		{"the odd one is oneself", ballots{ballot(other), good, good},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, Odd: []int{0}}},
		{"two that differ name nobody", ballots{good, ballot(other)}, quorum.Verdict{Vote: quorum.VoteNo, Broken: true}},
		{"three that differ name nobody", ballots{good, ballot(other), ballot(third)}, quorum.Verdict{Vote: quorum.VoteNo, Broken: true}},
		{"a digest differs, another is missing", ballots{good, ballot(other), nil},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, Missing: []int{2}}},
		{"another position is another model (C1)", ballots{good, ballot(elsewhere)},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, NotOK: []int{1}}},
		{"a change wanted by one is wanted by all", ballots{good, ballot(wants)},
			quorum.Verdict{Vote: quorum.VoteYes, ChangeWanted: true}},
		{"a healed member's part counts", ballots{good, ballot(healed, wants)},
			quorum.Verdict{Vote: quorum.VoteYes, ChangeWanted: true}},
		{"an unhealed member vetoes nobody", ballots{good, ballot(unhealed)},
			quorum.Verdict{Vote: quorum.VoteYes, ChangeWanted: true}},
		{"but owes its part of the exchange", ballots{good, ballot(unhealed, unreduced)},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, NotOK: []int{1}}},
		{"and its bytes must be equal", ballots{good, good, ballot(unhealed, other)},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, ChangeWanted: true, Odd: []int{2}}},
		{"oneself unhealed is behind", ballots{ballot(unhealed), good, good},
			quorum.Verdict{Vote: quorum.VoteBehind, ChangeWanted: true}},
		{"oneself unhealed, another not ok", ballots{ballot(unhealed), ballot(notOK)},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, NotOK: []int{1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judges(t, c.ballots, c.want)
		})
	}
}

// judges checks what the ballots mean to rank 0, but for the reason given.
func judges(t *testing.T, ballots []*quorum.Ballot, want quorum.Verdict) {
	t.Helper()
	got := quorum.JudgeBallots(0, ballots)
	if got.Reason == "" {
		t.Error("no reason given")
	}
	got.Reason = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// C5's root: if one member sees all ballots ok and equal, then no member can see
// a no, whatever part of the ballots each of them has.
func TestJudgeBallotsYesAndNoExclude(t *testing.T) {
	t.Parallel()
	kinds := []*quorum.Ballot{ballot(), ballot(notOK), ballot(other), ballot(healed), ballot(unhealed),
		ballot(state(1)), ballot(state(2))}
	n := len(kinds)
	for pick := range n * n * n {
		all := []*quorum.Ballot{kinds[pick%n], kinds[pick/n%n], kinds[pick/n/n]}
		var yes, no int
		for own := range all {
			for lost := range 1 << len(all) {
				seen := make([]*quorum.Ballot, len(all))
				for rank := range all {
					if rank == own || lost>>rank&1 == 0 {
						seen[rank] = all[rank]
					}
				}
				switch quorum.JudgeBallots(own, seen).Vote {
				case quorum.VoteYes:
					yes++
				case quorum.VoteNo:
					no++
				}
			}
		}
		if yes > 0 && no > 0 {
			t.Errorf("ballots %v: %d views say yes, %d no", pick, yes, no)
		}
	}
}
