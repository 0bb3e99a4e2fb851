package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// An attempt that was cut before it issued anything gives no ballot: that would meet
// the others' first operation. A rank alone begins the next attempt, which they take
// for this one; of several ranks another may have given its ballot, and the quorum
// falls. One that has issued something is owed a ballot.
func TestCutBeforeItIssuedAnything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ranks, ops         int
		ballot, void, fall bool
	}{
		{ranks: 1, void: true}, {ranks: 2, fall: true}, {ranks: 1, ops: 1, ballot: true}, {ranks: 2, ops: 1, ballot: true},
	} {
		r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: c.ranks})
		q := &quorum.Quorum{ID: 5, Round: 1, Members: []quorum.Member{
			{ReplicaID: "a", GroupWorldSize: c.ranks}, {ReplicaID: "b", GroupWorldSize: c.ranks},
		}}
		r.Need()
		if _, err := r.Take("a", q, 0); err != nil {
			t.Fatal(err)
		}
		if !r.Configured() || !r.Fulfil() {
			t.Fatal("the quorum does not stand")
		}
		r.Begin()
		for range c.ops {
			r.Issue()
		}
		r.Cut()
		v, none := r.WithoutBallot()
		if none == c.ballot || v.Void != c.void || v.Broken != c.fall {
			t.Errorf("%d ranks, %d operations: ballot %t, void %t, falls %t; want %t, %t, %t",
				c.ranks, c.ops, !none, v.Void, v.Broken, c.ballot, c.void, c.fall)
		}
		if m := r.Missing(); m.Void != c.void || m.Broken == c.void {
			t.Errorf("%d ranks, %d operations, no ballot: void %t, falls %t", c.ranks, c.ops, m.Void, m.Broken)
		}
	}
}
