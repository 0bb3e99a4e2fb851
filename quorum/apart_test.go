package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A rank that promised a step is told to discard it only if a sibling refused that very
// step: one that ended the attempt before there was a quorum refused another one.
func TestC5_AnAttemptEndedBeforeItsQuorumRefusesNothing(t *testing.T) {
	t.Parallel()
	ended := quorum.RankVote{QuorumID: 10, Round: 1, Step: 206, Attempt: 3, Broken: true, Last: true}
	for _, c := range []struct {
		name   string
		vote   quorum.RankVote
		want   quorum.TallyOutcome
		stands bool
	}{
		{"yes in the next quorum", quorum.RankVote{QuorumID: 11, Round: 1, Step: 206, Vote: quorum.VoteYes}, quorum.TallyPrepared, false},
		{"yes in the next round", quorum.RankVote{QuorumID: 10, Round: 2, Step: 206, Vote: quorum.VoteYes}, quorum.TallyPrepared, false},
		{"prepared in it", quorum.RankVote{QuorumID: 11, Round: 1, Step: 206, Vote: quorum.VotePrepared, Broken: true}, quorum.TallyPrepared, false},
		{"no in it", quorum.RankVote{QuorumID: 11, Round: 1, Step: 206}, quorum.TallyAbort, false},
		{"yes on the step that was refused", quorum.RankVote{QuorumID: 10, Round: 1, Step: 206, Vote: quorum.VoteYes}, quorum.TallyAbort, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := quorum.NewPolls(2)
			c.vote.GroupRank, c.vote.Attempt = 1, 3
			for _, v := range []quorum.RankVote{ended, c.vote} {
				if err := p.Vote(v); err != nil {
					t.Fatal(err)
				}
			}
			if r, ok := p.ResultFor(ended); !ok || r.Outcome != quorum.TallyAbort {
				t.Errorf("who ended it is told %v, %t; want an abort", r, ok)
			}
			if r, ok := p.ResultFor(c.vote); !ok || r.Outcome != c.want || r.Stands != c.stands {
				t.Errorf("told %+v, %t; want outcome %d, stands %t", r, ok, c.want, c.stands)
			}
		})
	}
}

// A report that was made in an attempt outlives it. The vote that is missing is that on
// the attempt which the others have ended, whichever the report names.
func TestAReportThatOutlivesItsAttemptAwaitsTheNextVote(t *testing.T) {
	t.Parallel()
	p := quorum.NewPolls(2)
	votes := []quorum.RankVote{
		{GroupRank: 0, QuorumID: 10, Round: 1, Step: 206, Attempt: 2},
		{GroupRank: 1, QuorumID: 10, Round: 1, Step: 206, Attempt: 2},
		{GroupRank: 0, QuorumID: 10, Round: 1, Step: 206, Attempt: 3, Broken: true, Last: true},
	}
	for i, v := range votes {
		if next, awaits := p.Awaits(quorum.RankReport{GroupRank: 1, Attempt: 2}); awaits && i != 1 {
			t.Errorf("before vote %d rank 1 is asked for its vote, and begins %d then", i, next)
		}
		if err := p.Vote(v); err != nil {
			t.Fatal(err)
		}
	}
	if next, awaits := p.Awaits(quorum.RankReport{GroupRank: 1, Attempt: 2}); !awaits || next != 4 {
		t.Errorf("Awaits = %d, %t; want 4, true: attempt 3 was ended without rank 1", next, awaits)
	}
	if _, awaits := p.Awaits(quorum.RankReport{GroupRank: 0, Attempt: 2}); awaits {
		t.Error("rank 0 is asked for a vote that it has given")
	}
}

// A rank that waits for its settlement has voted on the attempt for which it reports. It
// is not asked for its vote on the next one, which its sibling has given up and tried: it
// does not begin that before its report is answered.
func TestWhoAwaitsItsSettlementIsNotAskedForTheNextVote(t *testing.T) {
	t.Parallel()
	votes := []quorum.RankVote{
		{GroupRank: 1, QuorumID: 10, Round: 1, Step: 206, Attempt: 2, Vote: quorum.VotePrepared, Broken: true},
		{GroupRank: 0, QuorumID: 10, Round: 1, Step: 206, Attempt: 2, Vote: quorum.VotePrepared, Broken: true},
		{GroupRank: 1, QuorumID: 10, Round: 1, Step: 206, Attempt: 3, Broken: true, Last: true},
	}
	for _, c := range []struct {
		fact   quorum.FactKind
		awaits [3]bool // after each vote
	}{
		{quorum.Prepared, [3]bool{true, false, false}},
		{quorum.GaveUp, [3]bool{true, false, true}},
		{quorum.Refused, [3]bool{true, false, true}},
	} {
		p := quorum.NewPolls(2)
		report := quorum.RankReport{Attempt: 2, Fact: quorum.Fact{Kind: c.fact, Step: 206, QuorumID: 10}}
		for i, v := range votes {
			if err := p.Vote(v); err != nil {
				t.Fatal(err)
			}
			if next, awaits := p.Awaits(report); awaits != c.awaits[i] {
				t.Errorf("after vote %d rank 0, which says %v in attempt 2, is asked for its vote: %t, and begins %d then; want %t",
					i, c.fact, awaits, next, c.awaits[i])
			}
		}
	}
}

// A rank whose backend did not give its own ballot back does not know the digest with
// which that went out: it cannot say that it is prepared, and no digest of the others
// differs from it. A no of another one it may believe: beside that nobody committed.
func TestC5_WhoDoesNotKnowItsDigestHasGivenUp(t *testing.T) {
	t.Parallel()
	q := formedOf(7, quorum.Member{ReplicaID: "a", GroupWorldSize: 1}, quorum.Member{ReplicaID: "b", GroupWorldSize: 1},
		quorum.Member{ReplicaID: "c", GroupWorldSize: 1})
	sum := quorum.Digest{Valid: true, Sum: 5}
	for _, c := range []struct {
		name string
		came func(own, ok, no *quorum.Ballot) []*quorum.Ballot
		vote quorum.Vote
		fact quorum.FactKind
	}{
		{"its own", func(own, _, _ *quorum.Ballot) []*quorum.Ballot { return []*quorum.Ballot{own} }, quorum.VotePrepared, quorum.Prepared},
		{"no list", func(_, _, _ *quorum.Ballot) []*quorum.Ballot { return nil }, quorum.VotePrepared, quorum.GaveUp},
		{"a list of none", func(_, _, _ *quorum.Ballot) []*quorum.Ballot { return make([]*quorum.Ballot, 3) },
			quorum.VotePrepared, quorum.GaveUp},
		{"one other", func(_, ok, _ *quorum.Ballot) []*quorum.Ballot { return []*quorum.Ballot{nil, ok} },
			quorum.VotePrepared, quorum.GaveUp},
		{"all others", func(_, ok, _ *quorum.Ballot) []*quorum.Ballot { return []*quorum.Ballot{nil, ok, ok} },
			quorum.VotePrepared, quorum.GaveUp},
		{"a no", func(_, ok, no *quorum.Ballot) []*quorum.Ballot { return []*quorum.Ballot{nil, ok, no} },
			quorum.VoteNo, quorum.Refused},
		{"only noes", func(_, _, no *quorum.Ballot) []*quorum.Ballot { return []*quorum.Ballot{nil, no, no} },
			quorum.VoteNo, quorum.Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1})
			r.Need()
			if _, err := r.Take("a", q, 0); err != nil || !r.Configured() || !r.Fulfil() {
				t.Fatalf("not in a quorum: %v", err)
			}
			r.Begin()
			r.Issue()
			r.Close()
			own := r.Ballot(false)
			r.Seal(own)
			own.Digest = sum
			ok, no := own, own
			no.OK, no.Reduced, no.Digest.Sum = false, false, 6
			at, ballots := r.Gather(c.came(&own, &ok, &no))
			if at != 0 || len(ballots) != 3 || ballots[0] == nil {
				t.Fatalf("gathered %v, own %d; want a place for each of three, and the own one", ballots, at)
			}
			vote, _ := r.Judged(quorum.JudgeBallots(at, ballots), ballots[at].Digest, false)
			if vote.Vote != c.vote || !vote.Broken {
				t.Errorf("votes %v, broken %t; want %v, true", vote.Vote, vote.Broken, c.vote)
			}
			r.Voted()
			r.Resolve(quorum.TallyResult{Outcome: quorum.TallyPrepared}, vote)
			r.Fall(7)
			r.Need()
			if f := r.Report(quorum.ReportOptions{}).Fact; f.Kind != c.fact {
				t.Errorf("it says %v, want %v", f, c.fact)
			}
		})
	}
}
