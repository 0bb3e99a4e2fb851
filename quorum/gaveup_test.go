package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A promise that was given up stays one (PROTOCOL §2.6): an attempt after it, of which
// nobody but this replica knows, is discarded without a word against the step before it.
// (b was prepared for 1@q, gave up at its deadline, and had no quorum in its next
// attempt either, which was void. Its next report said that it had refused 1@q: a, which
// had committed that, is lost, c is prepared, and the settlement discards it.)
func TestC5_AVoidAttemptRefusesNothingThatWasGivenUp(t *testing.T) {
	t.Parallel()
	r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1})
	q := formedOf(7, quorum.Member{ReplicaID: "a", GroupWorldSize: 1}, quorum.Member{ReplicaID: "b", GroupWorldSize: 1},
		quorum.Member{ReplicaID: "c", GroupWorldSize: 1})
	r.Need()
	if _, err := r.Take("b", q, 0); err != nil || !r.Configured() || !r.Fulfil() {
		t.Fatalf("not in a quorum: %v", err)
	}
	r.Started()
	polls := quorum.NewPolls(1)
	word := func(v quorum.RankVote) quorum.TallyResult {
		t.Helper()
		if err := polls.Vote(v); err != nil {
			t.Fatal(err)
		}
		result, ok := polls.Result(v.Attempt)
		if !ok {
			t.Fatalf("attempt %d is open", v.Attempt)
		}
		return result
	}

	r.Begin()
	r.Issue()
	r.Close()
	own := r.Ballot(false)
	r.Seal(own)
	vote, _ := r.Judged(quorum.JudgeBallots(1, []*quorum.Ballot{nil, &own, nil}), quorum.Digest{Valid: true, Sum: 1}, true)
	r.Voted()
	out := r.Resolve(word(vote), vote)
	if !out.Awaits {
		t.Fatalf("%+v, want that it waits for the settlement", out)
	}
	r.Fall(q.ID)
	r.Need()
	if fact := r.Report(quorum.ReportOptions{}).Fact; fact.Kind != quorum.Prepared {
		t.Fatalf("%v, want prepared", fact)
	}
	if _, settled := r.GiveUp(); settled {
		t.Fatal("settled")
	}
	r.End(out)
	want := r.Report(quorum.ReportOptions{}).Fact
	if want.Kind != quorum.GaveUp {
		t.Fatalf("%v, want gave-up", want)
	}

	// No quorum comes within the time of the next attempt.
	r.Begin()
	r.Close()
	r.Cut()
	vote, none := r.WithoutBallot()
	if !none || !vote.Void {
		t.Fatalf("%+v, %t; want a void vote", vote, none)
	}
	r.Voted()
	r.End(r.Resolve(word(vote), vote))

	// The one after it ends with the trainer's ctx: what was reported is reported anew.
	r.Begin()
	r.Close()
	r.Abandon()
	if got := r.Report(quorum.ReportOptions{}).Fact; got.Kind != want.Kind || got.Step != want.Step || got.QuorumID != want.QuorumID {
		t.Errorf("it says %+v, want %+v", got, want)
	}
}
