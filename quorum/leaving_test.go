package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Q10: the only whole state is that of one that drains, which has joined; the others' ranks
// are at different positions. They heal from it before it leaves.
func TestQ10_TheTornHealFromAHolderThatDrains(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b")
	r.commit("a", "b")
	r.beat()
	if err := r.m.Drain(r.now, "a", "maintenance"); err != nil {
		t.Fatal(err)
	}
	r.fall("a", quorum.Fact{})
	j := r.makeJoin("b", quorum.JoinFall, quorum.Fact{})
	j.Member.Torn, j.Member.Position, j.LastDigests = true, quorum.Position{}, nil
	if err := r.m.Join(r.now, j); err != nil {
		t.Fatal(err)
	}
	r.wait(10 * time.Minute)
	if d := r.m.Decide(r.now); !d.Ready {
		t.Errorf("after 10 minutes: %v", d.Reason)
	}
}

// Q3: a draining holder that stays counts: with min_replicas 2 it and who reaches it are
// two, and who does not reach it is left out.
func TestKeptApartTheHolderThatDrainsCounts(t *testing.T) {
	t.Parallel()
	for _, drains := range []bool{false, true} {
		r := standing(t, rules(2), "a", "b")
		r.commit("a")
		r.beat()
		r.open("c")
		if err := r.m.Link(r.now, quorum.LinkReport{By: "c", To: "a", Evidence: "no answer"}); err != nil {
			t.Fatal(err)
		}
		if drains {
			if err := r.m.Drain(r.now, "a", "maintenance"); err != nil {
				t.Fatal(err)
			}
		}
		r.fall("b", quorum.Fact{})
		r.fall("c", quorum.Fact{})
		r.fall("a", quorum.Fact{})
		r.wait(2 * time.Minute)
		d := r.m.Decide(r.now)
		q := r.form()
		if q == nil || len(q.Members) != 2 {
			t.Errorf("drains %t: %v %v", drains, d.Reason, q)
		}
	}
}
