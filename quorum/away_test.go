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

// A trainer that comes back, and by the next beat waits in the StartQuorum that joins
// for it, is not stuck any more, though no beat of it says that it moved and is there.
func TestL1_WhoComesBackIntoAStartQuorumIsLetIn(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "c")
	beats := func(d time.Duration, b quorum.Beat) {
		for end := s.now.Add(d); s.now.Before(end); s.Advance(s.now) {
			s.now = s.now.Add(100 * time.Millisecond)
			for id, beat := range map[quorum.ReplicaID]quorum.Beat{"a": {}, "b": b, "c": {}} {
				if err := s.Beat(s.now, id, beat); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	hung := quorum.Beat{QuorumID: q.ID, Phase: quorum.PhaseBalloting, Progress: 7, Away: true}
	beats(time.Second, hung)
	for _, id := range []quorum.ReplicaID{"a", "c"} {
		s.join(falls(id, 9, &q, quorum.Position{}))
	}
	s.form()
	beats(2*quorum.DefaultConfig().StuckAfter, hung)
	if r := stateOf(s, "b"); r.State != quorum.StateStuck {
		t.Fatalf("b is %s (%s), want stuck", r.State, r.Why)
	}
	hung.Progress++
	beats(200*time.Millisecond, hung)
	hung.Away, hung.Phase = false, quorum.PhaseJoining
	s.join(falls("b", 10, &q, quorum.Position{}))
	beats(200*time.Millisecond, hung)
	if r := stateOf(s, "b"); r.State != quorum.StateJoined {
		t.Errorf("b is %s (%s), want joined", r.State, r.Why)
	}
}
