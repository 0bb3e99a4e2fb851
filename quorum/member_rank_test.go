package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// aloneRank is a rank whose replica a is the one member of a quorum that stands.
func aloneRank(t *testing.T) (*quorum.Rank, *quorum.Quorum) {
	t.Helper()
	r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1})
	q := &quorum.Quorum{
		Cluster: "x", ID: 7, Round: 1, Members: []quorum.Member{{ReplicaID: "a", GroupWorldSize: 1}},
		Participants: []quorum.ReplicaID{"a"},
	}
	r.Need()
	if _, err := r.Take("a", q, 0); err != nil || !r.Configured() || !r.Fulfil() {
		t.Fatalf("the rank is in no quorum: %v", err)
	}
	return &r, q
}

// The word that a change is wanted overtakes the answer to the ask before it, in
// another round of the same quorum: it is not forgotten.
func TestRankWishThatOvertakesAnAnswer(t *testing.T) {
	t.Parallel()
	r, q := aloneRank(t)
	wanted := quorum.Notice{Kind: quorum.NoticeWanted, QuorumID: q.ID, Reason: "c joined"}
	if r.Hear(wanted) != quorum.HeardWanted || !r.Ask() {
		t.Fatal("the rank does not ask")
	}
	r.Hear(wanted)
	again := *q
	again.Round = 2
	if _, err := r.Take("a", &again, 0); err != nil || !r.Fulfil() {
		t.Fatal(err)
	}
	if r.Wanted() == "" {
		t.Error("after the answer nothing is wanted, though the lighthouse has said so again")
	}
	r.Ask()
	again.Round = 3
	if _, err := r.Take("a", &again, 0); err != nil || r.Wanted() != "" {
		t.Errorf("after the second answer %q is wanted (%v), want nothing", r.Wanted(), err)
	}
}
