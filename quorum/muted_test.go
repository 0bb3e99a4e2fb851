package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// An ask that went unanswered is not repeated until the lighthouse was heard again, also
// when steps fail for reasons of their own: it would cost each of them a heartbeat timeout.
func TestWhoWasNotAnsweredAsksNoMoreAfterAStepThatFailed(t *testing.T) {
	t.Parallel()
	for _, drains := range []bool{false, true} {
		old := quorum.Position{Cluster: "x", Step: 4, QuorumID: 6}
		r, mine := leaver(t, drains, old)
		q := formedOf(7, quorum.Member{ReplicaID: "a", GroupWorldSize: 1, Position: mine}, quorum.Member{ReplicaID: "b", GroupWorldSize: 1, Position: old})
		q.Participants = []quorum.ReplicaID{"b"}
		if _, err := r.Take("a", q, 0); err != nil {
			t.Fatal(err)
		}
		r.Configured()
		r.Fulfil()
		stepFails(t, r, old)
		if !r.Ask() {
			t.Fatalf("drains %t: does not ask", drains)
		}
		if !r.Unanswered() {
			t.Fatalf("drains %t: its quorum fell", drains)
		}
		r.Drop()
		stepFails(t, r, old)
		if r.Wanted() != "" {
			t.Errorf("drains %t: it wants a change again (%q), and the lighthouse was not heard", drains, r.Wanted())
		}
		r.HearAgain()
		if r.Wanted() == "" {
			t.Errorf("drains %t: it wants nothing when the lighthouse is heard again", drains)
		}
	}
}

// leaver is a rank that drains, or a fresh one, which has to heal.
func leaver(t *testing.T, drains bool, at quorum.Position) (*quorum.Rank, quorum.Position) {
	t.Helper()
	r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1})
	defer r.Need()
	if !drains {
		return &r, quorum.Position{}
	}
	r.Start(at, 1)
	r.Drain("maintenance")
	return &r, at
}

// stepFails is a step in which the other one's gradients are not fine.
func stepFails(t *testing.T, r *quorum.Rank, at quorum.Position) {
	t.Helper()
	r.Begin()
	r.Issue()
	if r.Behind() {
		r.Healed(at, 1, quorum.Digest{})
		r.HealedBeside()
	}
	r.Close()
	own := r.Ballot(false)
	r.Seal(own)
	other := own
	other.OK, other.Reduced, other.Healed = false, false, false
	rank, all := r.Gather([]*quorum.Ballot{&own, &other})
	vote, _ := r.Judged(quorum.JudgeBallots(rank, all), quorum.Digest{}, false)
	r.Voted()
	p := quorum.NewPolls(1)
	if err := p.Vote(vote); err != nil {
		t.Fatal(err)
	}
	res, _ := p.ResultFor(vote)
	r.End(r.Resolve(res, vote))
	if !r.Standing() {
		t.Fatal("its quorum fell")
	}
}
