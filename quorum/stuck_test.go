package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// stuckScene is a quorum of a, b and c that stands, with StuckAfter 5 s.
func stuckScene(t *testing.T, evict bool) (*scene, quorum.Quorum) {
	t.Helper()
	c := quorum.DefaultConfig()
	c.StuckAfter, c.EvictStuck = 5*time.Second, evict
	s := newScene(t, c)
	s.open("a", "b", "c")
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		s.join(skerryJoin(id, 1))
	}
	s.pass(time.Second, "a", "b", "c")
	return s, s.form()
}

// beats lets time pass in beats of a, b and c; those whom waits names wait, and
// none moves.
func (s *scene) beats(d time.Duration, q quorum.Quorum, waits string) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(100 * time.Millisecond)
		for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
			b := quorum.Beat{QuorumID: q.ID, Phase: quorum.PhaseBalloting, Progress: 7}
			for _, w := range waits {
				b.Waits = b.Waits || string(id) == string(w)
			}
			if err := s.Beat(s.now, id, b); err != nil && stateOf(s, id).State != quorum.StateEvicted {
				s.t.Fatal(err)
			}
		}
		if err := s.Beat(s.now, "d", quorum.Beat{}); err != nil && stateOf(s, "d").ReplicaID != "" {
			s.t.Fatal(err)
		}
		s.Advance(s.now)
	}
}

// L3: a quorum whose members are all up is not replaced without one of them:
// neither while they wait for one that heals, nor while all of them compute, and
// a replica joins from outside.
func TestL3_AQuorumThatWaitsIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]string{"two wait, one heals": "abc", "all compute": ""} {
		s, q := stuckScene(t, false)
		s.beats(20*time.Second, q, waits)
		s.open("d")
		s.join(skerryJoin("d", 1))
		s.beats(20*time.Second, q, waits)
		if d := s.Decide(s.now); d.Ready || d.Reason.Code != quorum.ReasonStands {
			t.Errorf("%s: decision %v, members %v, want that the quorum stands", name, d.Reason, d.Quorum.Members)
		}
		for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
			if r := stateOf(s, id); r.State != quorum.StateLive {
				t.Errorf("%s: %s is %s (%s), want live", name, id, r.State, r.Why)
			}
		}
	}
}

// L3: the member that hangs ends the quorum, by name, and with EvictStuck is put
// out; those who wait for it are not.
func TestL3_TheOneThatHangsIsStuck(t *testing.T) {
	t.Parallel()
	for _, evict := range []bool{false, true} {
		s, q := stuckScene(t, evict)
		s.beats(20*time.Second, q, "ab")
		want := quorum.StateStuck
		if evict {
			want = quorum.StateEvicted
		}
		if r := stateOf(s, "c"); r.State != want {
			t.Errorf("evict %t: c is %s (%s), want %s", evict, r.State, r.Why, want)
		}
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			if r := stateOf(s, id); r.State != quorum.StateLive && r.State != quorum.StateStuck {
				t.Errorf("evict %t: %s is %s (%s), want not evicted", evict, id, r.State, r.Why)
			}
		}
		if st := s.Status(s.now); st.Stands || st.Fell.Kind == quorum.CauseUnknown {
			t.Errorf("evict %t: stands %t, fell by %q; want that c ended it", evict, st.Stands, st.Fell)
		}
	}
}

// A member that computes for longer than StuckAfter is not stuck before the
// others have waited for it for as long.
func TestL3_WaitedForBeforeStuck(t *testing.T) {
	t.Parallel()
	s, q := stuckScene(t, false)
	s.beats(30*time.Second, q, "")
	s.beats(4*time.Second, q, "ab")
	if r := stateOf(s, "c"); r.State != quorum.StateLive {
		t.Errorf("c is %s (%s) after 4 s in which others waited for it, want live", r.State, r.Why)
	}
	s.beats(2*time.Second, q, "ab")
	if r := stateOf(s, "c"); r.State != quorum.StateStuck {
		t.Errorf("c is %s after 6 s in which others waited for it, want stuck", r.State)
	}
}
