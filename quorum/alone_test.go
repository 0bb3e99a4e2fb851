package quorum_test

import (
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
	drain("c")
	alone(true, "all drain")
	s.open("d")
	alone(false, "d has come")
	s.pass(time.Minute, "a")
	alone(true, "d and the others are silent")
}
