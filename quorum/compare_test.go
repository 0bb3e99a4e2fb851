package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A rank is told an answer that it has not had: one of a higher id, or of the same id and
// a higher round.
func TestRankReportHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, round, ofID, ofRound int64
		has                      bool
	}{
		{0, 0, 7, 1, false}, {7, 1, 7, 1, true}, {7, 2, 7, 1, true}, {7, 1, 7, 2, false},
		{8, 1, 7, 9, true}, {6, 9, 7, 1, false},
	} {
		r := quorum.RankReport{HaveQuorumID: c.id, HaveRound: c.round}
		if got := r.Has(&quorum.Quorum{ID: c.ofID, Round: c.ofRound}); got != c.has {
			t.Errorf("a rank that has %d.%d has %d.%d: %t, want %t", c.id, c.round, c.ofID, c.ofRound, got, c.has)
		}
	}
}

// An epoch is a cluster and an id: the same id of another cluster's ledger is another
// quorum, and needs another group.
func TestRankInEpoch(t *testing.T) {
	t.Parallel()
	r, q := aloneRank(t)
	if !r.InEpoch("x", 7) || r.InEpoch("y", 7) || r.InEpoch("x", 8) {
		t.Errorf("in x/7: %t, y/7: %t, x/8: %t; want the first alone", r.InEpoch("x", 7), r.InEpoch("y", 7), r.InEpoch("x", 8))
	}
	fresh := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1})
	if fresh.InEpoch("", 0) {
		t.Error("a rank that has had no answer is in an epoch")
	}
	for cluster, want := range map[string]bool{"x": false, "y": true} {
		rank, other := *r, *q
		other.Cluster, other.Round = cluster, 2
		got, err := rank.Take("a", &other, 0)
		if err != nil || got.Fresh != want {
			t.Errorf("taking 7.2 of cluster %s up: another group %t (%v), want %t", cluster, got.Fresh, err, want)
		}
	}
}
