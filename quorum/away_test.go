package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// A beat that was written before a join and sent after it does not put the replica
// out of the window.
func TestL1_WhoHasJoinedIsNotAway(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b")
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		s.join(falls(id, 9, &q, quorum.Position{}))
	}
	if err := s.Beat(s.now, "b", quorum.Beat{QuorumID: q.ID, Away: true}); err != nil {
		t.Fatal(err)
	}
	if q = s.form(); len(q.Members) != 2 {
		t.Errorf("members %v, want both, who have joined", idsOf(&q))
	}
}

// L3: one that was cut off for longer than StuckAfter is not stuck in the moment in
// which it is heard again: what it did meanwhile nobody heard.
func TestL3_WhoComesBackIsNotStuck(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b")
	s.pass(2*quorum.DefaultConfig().StuckAfter, "a")
	if r := stateOf(s, "b"); r.State != quorum.StateLost {
		t.Fatalf("b is %s, want lost", r.State)
	}
	s.pass(500*time.Millisecond, "a", "b") // its stream was held up
	s.join(falls("b", 9, &q, quorum.Position{}))
	if r := stateOf(s, "b"); r.State != quorum.StateJoined {
		t.Errorf("b is %s (%s), want joined", r.State, r.Why)
	}
}
