package quorum_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// A replica is alone when all others drain or are gone. One that may still join
// counts as somebody.
func TestAlone(t *testing.T) {
	t.Parallel()
	s, _ := standingScene(t, "a", "b", "c")
	alone := func(want bool, why string) {
		t.Helper()
		if got := s.Alone(s.now, "a"); got != want {
			t.Errorf("alone is %v, want %v: %s", got, want, why)
		}
	}
	drain := func(id quorum.ReplicaID) {
		t.Helper()
		if err := s.Drain(s.now, id, "test"); err != nil {
			t.Fatal(err)
		}
	}
	alone(false, "b and c train")
	drain("a")
	alone(false, "b and c go on")
	drain("b")
	alone(false, "c goes on")
	if err := s.Beat(s.now, "c", quorum.Beat{Away: true}); err != nil {
		t.Fatal(err)
	}
	alone(false, "c is away, and comes back")
	drain("c")
	alone(true, "all drain")
	s.open("d")
	alone(false, "d has come")
	s.pass(time.Minute, "a")
	alone(true, "d and the others are silent")
}

// A beat, or a join, that was sent beside the goodbye does not bring back a
// replica that is gone.
func TestNothingFollowsAGoodbye(t *testing.T) {
	t.Parallel()
	s, _ := standingScene(t, "a", "b")
	s.Leave(s.now, "a", "")
	if err := s.Beat(s.now, "a", quorum.Beat{Progress: 1}); !errors.Is(err, quorum.ErrNoSession) {
		t.Errorf("beat after the goodbye: %v, want %v", err, quorum.ErrNoSession)
	}
	if err := s.Join(s.now, skerryJoin("a", 2)); !errors.Is(err, quorum.ErrNoSession) {
		t.Errorf("join after the goodbye: %v, want %v", err, quorum.ErrNoSession)
	}
	if r := s.Status(s.now).Replicas[0]; r.State != quorum.StateLeft || r.Why != "left" {
		t.Errorf("a is %s %q, want left", r.State, r.Why)
	}
	s.open("a")
	if err := s.Beat(s.now, "a", quorum.Beat{Progress: 1}); err != nil {
		t.Errorf("beat of a new session: %v", err)
	}
}
