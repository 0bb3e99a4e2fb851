package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// The majority (Q5) is counted before those go whom bad links part (Q9). So one of
// two halves trains, though it is no more than half; these tests show that the other
// cannot as well, whatever it tries while the first is heard.

// parted is a rig in which the members of a quorum fell into two sets that do not
// reach each other, and one of these was formed.
func parted(t *testing.T, stay, out []quorum.ReplicaID) *rig {
	t.Helper()
	r := standing(t, rules(1), append(append([]quorum.ReplicaID{}, stay...), out...)...)
	for _, by := range out {
		for _, against := range stay {
			x := quorum.Accusation{By: by, Against: against, QuorumID: r.m.Last().ID, Evidence: "no answer", Unreachable: true}
			if err := r.m.Accuse(r.now, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.probes()
	for _, ids := range [][]quorum.ReplicaID{stay, out} {
		for _, id := range ids {
			r.fall(id, quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: r.m.Last().ID})
		}
	}
	r.wait(time.Second)
	r.mustForm(stay...)
	return r
}

// cutStill says again, as those do who could not reach a peer, that it is cut.
func (r *rig) cutStill(by, to []quorum.ReplicaID) {
	for _, x := range by {
		for _, y := range to {
			if err := r.m.Link(r.now, quorum.LinkReport{By: x, To: y, Evidence: "no answer"}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func TestQ5_OfTwoHalvesOneTrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		stay, out []quorum.ReplicaID
	}{
		{"two replicas, min 1", []quorum.ReplicaID{"a"}, []quorum.ReplicaID{"b"}},
		{"two halves of four", []quorum.ReplicaID{"a", "b"}, []quorum.ReplicaID{"c", "d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := parted(t, c.stay, c.out)
			t.Run("the others form nothing while it stands", func(t *testing.T) {
				r.t = t
				for range 10 {
					r.cutStill(c.out, c.stay)
					r.wait(30 * time.Second)
					r.refuses(quorum.ReasonStands)
				}
			})
			t.Run("nor when it fell and has not joined", func(t *testing.T) {
				r.t = t
				r.commit(c.stay...)
				r.beat()
				r.fall(c.stay[0], quorum.Fact{})
				r.m.Withdraw(r.now, c.stay[0], r.num) // a deadline
				r.cutStill(c.out, c.stay)
				r.wait(30 * time.Second)
				r.refuses(quorum.ReasonNoMajority)
			})
			t.Run("and who trains on is the same", func(t *testing.T) {
				r.t = t
				for _, id := range c.stay {
					r.fall(id, quorum.Fact{})
				}
				r.cutStill(c.out, c.stay)
				r.wait(time.Second)
				r.mustForm(c.stay...)
			})
		})
	}
}
