package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Q10 goes before a refusal: whoever alone holds the highest position is let in, for
// nobody goes on without it. (b was refused because its state had differed, then a
// died: b, which has what is left of the job, and the newcomer c waited for each other
// until the refusal was over, up to ten minutes.)
func TestL1_TheOnlyHolderIsNotRefused(t *testing.T) {
	t.Parallel()
	cfg := quorum.DefaultConfig()
	r := standing(t, cfg, "a", "b")
	r.commit("a", "b")
	r.beat()
	for times := range 6 { // its state differs, again and again
		q := r.in["b"]
		a := quorum.Accusation{By: "b", Against: "b", QuorumID: q.QuorumID, Kind: quorum.AccusedDiffers, Evidence: "differs"}
		if err := r.m.Accuse(r.now, a); err != nil {
			t.Fatal(err)
		}
		if times == 5 {
			break
		}
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			r.fall(id, quorum.Fact{})
		}
		if q := r.mustForm(); len(q.Members) == 1 {
			for range 100 { // b's time passes
				r.now = r.now.Add(tick)
				r.beat()
			}
			r.ask("a")
			r.mustForm("a", "b")
		}
		r.commit("a", "b")
		r.beat()
	}
	r.open("c")
	r.fall("c", quorum.Fact{})
	r.die("a", "b")
	r.fall("b", quorum.Fact{})
	began := r.now
	r.wait(10 * time.Minute)
	if took := r.now.Sub(began); took > cfg.JoinTimeout {
		t.Errorf("the quorum of b and c came after %v, want %v at most: %v", took, cfg.JoinTimeout, r.m.Decide(r.now).Reason)
	}
	r.mustForm("b", "c")
}
