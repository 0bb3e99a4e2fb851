package quorum_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

func rankVote(rank int, v quorum.Vote) quorum.RankVote {
	return quorum.RankVote{GroupRank: rank, QuorumID: 7, Round: 1, Step: 5, Vote: v}
}

// Any no aborts; all yes commits (C2); else prepared, and behind before that. A no
// alone lets the quorum stand, lost ballots do not. The outcome does not depend on
// the order of the votes.
func TestTallyOutcomes(t *testing.T) {
	t.Parallel()
	const no, prepared, yes, behind = quorum.VoteNo, quorum.VotePrepared, quorum.VoteYes, quorum.VoteBehind
	for _, c := range []struct {
		votes  []quorum.Vote
		want   quorum.TallyOutcome
		stands bool
	}{
		{[]quorum.Vote{yes}, quorum.TallyCommit, true},
		{[]quorum.Vote{no}, quorum.TallyAbort, true},
		{[]quorum.Vote{yes, yes, yes}, quorum.TallyCommit, true},
		{[]quorum.Vote{yes, prepared, yes}, quorum.TallyPrepared, false},
		{[]quorum.Vote{prepared, prepared}, quorum.TallyPrepared, false},
		{[]quorum.Vote{prepared, no, yes}, quorum.TallyAbort, false},
		{[]quorum.Vote{behind, yes}, quorum.TallyBehind, true},
		{[]quorum.Vote{behind, prepared}, quorum.TallyBehind, false},
		{[]quorum.Vote{behind, no}, quorum.TallyAbort, true},
		{[]quorum.Vote{yes, no}, quorum.TallyAbort, true},
	} {
		for shift := range c.votes {
			tally := quorum.NewTally(len(c.votes))
			for i := range c.votes {
				rank := (i + shift) % len(c.votes)
				if err := tally.Vote(rankVote(rank, c.votes[rank])); err != nil {
					t.Fatal(err)
				}
			}
			if r := tally.Result(); r.Outcome != c.want || r.Stands != c.stands {
				t.Errorf("%v from rank %d: %v stands %t, want %v stands %t", c.votes, shift, r.Outcome, r.Stands, c.want, c.stands)
			}
		}
	}
}

func TestTallyIsPendingUntilItCannotChange(t *testing.T) {
	t.Parallel()
	tally := quorum.NewTally(3)
	for _, v := range []quorum.RankVote{rankVote(2, quorum.VoteYes), rankVote(0, quorum.VotePrepared)} {
		if err := tally.Vote(v); err != nil {
			t.Fatal(err)
		}
		if got := tally.Result().Outcome; got != quorum.TallyPending {
			t.Fatalf("after %v: %v, want pending", v, got)
		}
	}
	if err := tally.Vote(rankVote(1, quorum.VoteNo)); err != nil {
		t.Fatal(err)
	}
	if got := tally.Result().Outcome; got != quorum.TallyAbort {
		t.Errorf("%v, want abort", got)
	}
}

// C3: the decision is one and is repeated, to late and to repeated votes.
func TestTallyKeepsItsDecision(t *testing.T) {
	t.Parallel()
	tally := quorum.NewTally(2)
	broken := rankVote(0, quorum.VoteNo)
	broken.Broken = true
	if err := tally.Vote(broken); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(tally.Result())
	for _, v := range []quorum.RankVote{rankVote(1, quorum.VoteYes), broken, rankVote(1, quorum.VoteYes)} {
		if err := tally.Vote(v); err != nil {
			t.Errorf("%v: %v", v, err)
		}
		if got := fmt.Sprint(tally.Result()); got != before {
			t.Errorf("after %v: %s, want still %s", v, got, before)
		}
	}
	if err := tally.Vote(rankVote(0, quorum.VoteYes)); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("a changed vote: %v, want ErrInvalid", err)
	}
}

// A vote left over from an earlier step, round or quorum does not count.
func TestTallyRefusesStaleVotes(t *testing.T) {
	t.Parallel()
	tally := quorum.NewTally(2)
	if err := tally.Vote(rankVote(0, quorum.VoteYes)); err != nil {
		t.Fatal(err)
	}
	for _, stale := range []quorum.RankVote{
		{GroupRank: 1, QuorumID: 7, Round: 1, Step: 4, Vote: quorum.VoteYes},
		{GroupRank: 1, QuorumID: 7, Round: 0, Step: 5, Vote: quorum.VoteYes},
		{GroupRank: 1, QuorumID: 6, Round: 9, Step: 9, Vote: quorum.VoteYes},
	} {
		if err := tally.Vote(stale); !errors.Is(err, quorum.ErrStaleVote) {
			t.Errorf("%+v: %v, want ErrStaleVote", stale, err)
		}
	}
	if got := tally.Result().Outcome; got != quorum.TallyPending {
		t.Errorf("%v, want pending", got)
	}
	next := quorum.RankVote{GroupRank: 1, QuorumID: 8, Round: 1, Step: 5, Vote: quorum.VoteYes}
	if err := tally.Vote(next); err != nil {
		t.Fatal(err)
	}
	if err := tally.Vote(rankVote(1, quorum.VoteYes)); !errors.Is(err, quorum.ErrStaleVote) {
		t.Errorf("a vote of quorum 7 after 8 began: %v, want ErrStaleVote", err)
	}
}

// The OR over ranks: no rank decides alone whether the quorum stands, and whether
// a change is wanted.
func TestTallyAnswersForAllRanks(t *testing.T) {
	t.Parallel()
	tally := quorum.NewTally(3)
	votes := []quorum.RankVote{rankVote(0, quorum.VoteYes), rankVote(1, quorum.VoteYes), rankVote(2, quorum.VoteYes)}
	votes[1].ChangeWanted = true
	votes[2].Broken = true
	votes[2].Digest = quorum.Digest{Valid: true, Sum: 6}
	for _, v := range votes {
		if err := tally.Vote(v); err != nil {
			t.Fatal(err)
		}
	}
	r := tally.Result()
	if r.Outcome != quorum.TallyCommit || !r.ChangeWanted || r.Stands || r.Digests[2] != votes[2].Digest {
		t.Errorf("got %+v, want a commit, a change wanted, a fallen quorum and rank 2's digest", r)
	}
}

func TestTallyRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	tally := quorum.NewTally(2)
	for _, v := range []quorum.RankVote{
		rankVote(2, quorum.VoteYes), rankVote(-1, quorum.VoteYes), rankVote(0, 99),
		{GroupRank: 0, QuorumID: -1}, {GroupRank: 0, Step: quorum.MaxStep + 1},
	} {
		if err := tally.Vote(v); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", v, err)
		}
	}
}
