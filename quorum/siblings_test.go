package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// take has b take an answer up.
func take(t *testing.T, r *quorum.Rank, q *quorum.Quorum) quorum.Taken {
	t.Helper()
	tk, err := r.Take("b", q, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// enter has it do so, and begin in that quorum.
func enter(t *testing.T, r *quorum.Rank, q *quorum.Quorum) {
	t.Helper()
	take(t, r, q)
	if !r.Configured() || !r.Fulfil() {
		t.Fatal("not in it")
	}
}

// pair are the two ranks of b.
func pair() [2]*quorum.Rank {
	var out [2]*quorum.Rank
	for g := range 2 {
		r := quorum.NewRank(quorum.RankConfig{GroupRank: g, GroupWorldSize: 2, MinReplicas: 1})
		out[g] = &r
	}
	return out
}

func quorumOfTwo(id int64) *quorum.Quorum {
	return formedOf(id, quorum.Member{ReplicaID: "a", GroupWorldSize: 2}, quorum.Member{ReplicaID: "b", GroupWorldSize: 2})
}

// What became of an attempt that the siblings have left is not the matter of the quorum
// in which a rank hears of it: it stands.
func TestAnOvertakenAttemptLetsTheNewQuorumStand(t *testing.T) {
	t.Parallel()
	p, rs := quorum.NewPolls(2), pair()
	beginAfter(t, rs, quorumOfTwo(8))
	// Rank 0's trainer does not wait: it ends attempt 1, and is in attempt 2.
	rs[0].Abandon()
	v := rs[0].Missing()
	v.Last = v.Broken
	if err := p.Vote(v); err != nil {
		t.Fatal(err)
	}
	rs[0].Leave()
	// Rank 1 is told of quorum 9, and of attempt 2.
	rs[1].CatchUp(p.Next(1))
	if tk := take(t, rs[1], quorumOfTwo(9)); !tk.Void {
		t.Fatal("not void")
	}
	rs[1].Cut()
	rs[1].Configured()
	rs[1].Fulfil()
	own, none := rs[1].WithoutBallot()
	if !none || !own.Void {
		t.Fatalf("%+v %t", own, none)
	}
	if err := p.Vote(own); err != nil {
		t.Fatal(err)
	}
	res, ok := p.ResultFor(own)
	got := rs[1].Resolve(res, own)
	if !ok || !got.Stands {
		t.Errorf("the void vote on attempt 1 in quorum %d is told %+v, so quorum %d falls (stands %t)", own.QuorumID, res, own.QuorumID, got.Stands)
	}
}

// C5: of two ranks that promised a step, in attempts of different numbers, one gives it
// up and votes in the next attempt, which is its sibling's: it does not refuse the step.
func TestC5_WhoGaveAStepUpDoesNotRefuseItForItsSibling(t *testing.T) {
	t.Parallel()
	p, rs := quorum.NewPolls(2), pair()
	q10, q11 := quorumOfTwo(10), quorumOfTwo(11)
	beginAfter(t, rs, q10)
	next := [2]uint64{p.Next(0), p.Next(1)} // the answer is on its way to both
	// Rank 0's trainer ends attempt 1 before it is there.
	rs[0].Abandon()
	v := rs[0].Missing()
	v.Last = v.Broken
	if err := p.Vote(v); err != nil {
		t.Fatal(err)
	}
	rs[0].Leave()
	votes := [2]quorum.RankVote{}
	for g, r := range rs {
		r.CatchUp(next[g])
		enter(t, r, q11)
		if g == 0 {
			r.Begin() // attempt 2
		}
		votes[g] = promises(t, r)
	}
	// All ballots came, equal and ok: a has committed 1@11.
	for _, g := range []int{1, 0} {
		if err := p.Vote(votes[g]); err != nil {
			t.Fatal(err)
		}
	}
	res, ok := p.ResultFor(votes[1])
	if !ok || res.Outcome != quorum.TallyPrepared {
		t.Fatal(res, ok)
	}
	if out := rs[1].Resolve(res, votes[1]); !out.Awaits {
		t.Fatal("does not await the settlement")
	}
	rs[1].Fall(11)
	rs[1].Need()
	rs[1].Report(quorum.ReportOptions{})
	rs[1].CatchUp(p.Next(1))
	// It is not answered before its settlement's deadline.
	rs[1].GiveUp()
	rs[1].End(quorum.Resolution{})
	rs[1].Begin()
	rs[1].Cut() // voteFirst
	rs[1].Close()
	vote, none := rs[1].WithoutBallot()
	if !none {
		t.Fatal("a ballot")
	}
	if err := p.Vote(vote); err != nil {
		t.Fatal(err)
	}
	res, ok = p.ResultFor(votes[0])
	if !ok {
		t.Fatal("open")
	}
	rs[0].Resolve(res, votes[0])
	rs[0].Fall(11)
	rs[0].Need()
	j, err := quorum.MergeReports(quorum.Member{ReplicaID: "b", GroupWorldSize: 2},
		[]quorum.RankReport{rs[0].Report(quorum.ReportOptions{}), rs[1].Report(quorum.ReportOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome == quorum.TallyAbort || j.Fact.Kind == quorum.Refused {
		t.Errorf("rank 0, which promised 1@11, is told %+v by the vote %+v; its replica says %v of a step that all others committed", res, vote, j.Fact)
	}
}

// A void attempt asks for nothing, also where it was decided without this rank's vote:
// the others of the quorum have not asked, and would not until its next ballot.
func TestAVoidAttemptAsksForNothing(t *testing.T) {
	t.Parallel()
	p, rs := quorum.NewPolls(2), pair()
	for _, v := range []quorum.RankVote{
		{GroupRank: 0, QuorumID: 8, Round: 1, Step: 1, Attempt: 1, Vote: quorum.VoteYes, ChangeWanted: true},
		{GroupRank: 0, QuorumID: 8, Round: 1, Step: 1, Attempt: 2, Broken: true, Last: true}, // it waited for rank 1 in vain
	} {
		if err := p.Vote(v); err != nil {
			t.Fatal(err)
		}
	}
	r := rs[1]
	r.Need()
	enter(t, r, quorumOfTwo(8))
	r.Fall(8)
	r.Need()
	r.Begin()
	r.CatchUp(p.Next(1))
	if tk := take(t, r, quorumOfTwo(9)); !tk.Void {
		t.Fatal("not void")
	}
	r.Cut()
	r.Configured()
	r.Fulfil()
	own, _ := r.WithoutBallot()
	if err := p.Vote(own); err != nil {
		t.Fatal(err)
	}
	res, _ := p.ResultFor(own)
	out := r.Resolve(res, own)
	if e := r.End(out); e.Asks {
		t.Errorf("told %+v, it asks: %+v", res, out)
	}
}

// beginAfter has both ranks begin an attempt after q fell.
func beginAfter(t *testing.T, rs [2]*quorum.Rank, q *quorum.Quorum) {
	t.Helper()
	for _, r := range rs {
		r.Need()
		enter(t, r, q)
		r.Fall(q.ID)
		r.Need()
		r.Begin()
	}
}

// promises has a rank give its ballot, and see that all are ok and equal.
func promises(t *testing.T, r *quorum.Rank) quorum.RankVote {
	t.Helper()
	r.Issue()
	r.Close()
	own := r.Ballot(false)
	r.Seal(own)
	own.Digest = quorum.Digest{Valid: true, Sum: 5}
	other := own
	at, all := r.Gather([]*quorum.Ballot{&other, &own})
	vote, verdict := r.Judged(quorum.JudgeBallots(at, all), own.Digest, false)
	if !verdict.Yes() {
		t.Fatal(verdict.Reason)
	}
	r.Voted()
	return vote
}
