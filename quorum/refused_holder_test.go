package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Q10 goes before a refusal: whoever alone holds the highest position is let in, for
// nobody goes on without it. (b was refused because its state had differed, then a
// died: b, which has what is left of the job, and a newcomer waited for each other
// until the refusal was over, up to ten minutes.)
func TestL1_TheOnlyHolderIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []quorum.AccusationKind{quorum.AccusedDiffers, quorum.AccusedUnhealed} {
		onlyHolder(t, kind)
	}
}

func onlyHolder(t *testing.T, kind quorum.AccusationKind) {
	t.Helper()
	cfg := quorum.DefaultConfig()
	r := standing(t, cfg, "a", "b")
	r.commit("a", "b")
	r.beat()
	for times := range 6 { // its state differs, again and again
		q := r.in["b"]
		a := quorum.Accusation{By: "b", Against: "b", QuorumID: q.QuorumID, Kind: kind, Evidence: "so it says"}
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
	r.open("0") // of two that hold as much, the first is a holder to be kept
	r.fall("0", quorum.Fact{})
	r.die("a", "b")
	r.fall("b", quorum.Fact{})
	began := r.now
	r.wait(10 * time.Minute)
	if took := r.now.Sub(began); took > cfg.JoinTimeout {
		t.Errorf("the quorum of b and the newcomer came after %v, want %v at most: %v", took, cfg.JoinTimeout, r.m.Decide(r.now).Reason)
	}
	r.mustForm("0", "b")
	// It trains, and says nothing new: nobody puts a member out of a quorum that stands
	// (L3). (Once the newcomer held the position too, b was put out again, at the next ask.)
	r.pos["0"] = r.pos["b"] // it heals
	r.commit("0", "b")
	r.beat()
	r.open("d")
	r.fall("d", quorum.Fact{})
	r.ask("b")
	r.ask("0")
	r.mustForm("0", "b", "d")
	// That it committed with others speaks against what was said of its heals, not
	// against what was said of its state.
	r.pos["d"] = r.pos["b"]
	r.commit("0", "b", "d")
	r.beat()
	r.die("d", "0")
	r.fall("b", quorum.Fact{})
	r.fall("0", quorum.Fact{})
	if kind == quorum.AccusedUnhealed {
		r.mustForm("0", "b")
	} else {
		r.mustForm("0")
	}
}

// Q10 goes before shrink-only too: a member asks for no newcomers, and the holder of the
// highest position, which was lost, is back as one. (Both had joined, and waited for each
// other for ever.)
func TestL1_ShrinkOnlyKeepsNoHolderOut(t *testing.T) {
	t.Parallel()
	r := standing(t, quorum.DefaultConfig(), "a", "b")
	r.commit("a", "b")
	r.beat()
	r.die("a", "b")
	r.fall("b", quorum.Fact{})
	r.mustForm("b")
	r.pos["a"] = quorum.Position{Cluster: r.pos["b"].Cluster, Step: r.pos["b"].Step + 5, QuorumID: r.pos["b"].QuorumID}
	r.open("a")
	r.fall("a", quorum.Fact{})
	j := r.makeJoin("b", quorum.JoinFall, quorum.Fact{})
	j.Member.ShrinkOnly = true
	if err := r.m.Join(r.now, j); err != nil {
		t.Fatal(err)
	}
	began := r.now
	r.wait(time.Minute)
	if took := r.now.Sub(began); took > quorum.DefaultConfig().JoinTimeout {
		t.Errorf("the quorum of a and b came after %v: %v", took, r.m.Decide(r.now).Reason)
	}
	r.mustForm("a", "b")
}

// L1 goes before shrink-only too: a member that is refused counts for nobody, also where
// another one asks for no newcomers. (Of two members one was refused. The other had no
// majority of the members, for as long as that lasted, up to ten minutes.)
func TestL1_ShrinkOnlyWaitsForNoRefused(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b")
	unhealed := quorum.Accusation{By: "b", Against: "b", Kind: quorum.AccusedUnhealed, Evidence: "its heal failed"}
	s.breaks2(&q, unhealed) // once is no refusal
	unhealed.QuorumID = q.ID
	if err := s.Accuse(s.now, unhealed); err != nil {
		t.Fatal(err)
	}
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := falls(id, uint64(q.ID)+1, &q, quorum.Position{})
		j.Member.ShrinkOnly = id == "a"
		s.join(j)
		d := s.Decide(s.now)
		if id == "a" && (d.Ready || d.Reason.Code != quorum.ReasonNoMajority) {
			t.Errorf("before b has joined: ready %v, %v; want no majority", d.Ready, d.Reason)
		}
		if ids := idsOf(&d.Quorum); id == "b" && !slices.Equal(ids, []quorum.ReplicaID{"a"}) {
			t.Errorf("the next quorum is of %v, want a alone: %v", ids, d.Reason)
		}
	}
}

// Q6: shrink-only gives way before two that are kept apart meet again. (They met, and
// broke the next quorum, though a newcomer had joined who could take the place of one.)
func TestQ6_ShrinkOnlyGivesWayBeforeTheParted(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(2), "a", "b")
	r.commit("a", "b")
	r.beat()
	r.open("c")
	r.fall("c", quorum.Fact{})
	for i := range 2 { // their link breaks
		q := r.m.Last()
		if err := r.m.Accuse(r.now, quorum.Accusation{By: "b", Against: "a", QuorumID: q.ID, Evidence: "reset"}); err != nil {
			t.Fatal(err)
		}
		r.probes()
		refused := quorum.Fact{Kind: quorum.Refused, Step: r.pos["b"].Step + 1, QuorumID: q.ID}
		r.fall("a", refused)
		j := r.makeJoin("b", quorum.JoinFall, refused)
		j.Member.ShrinkOnly = true
		if err := r.m.Join(r.now, j); err != nil {
			t.Fatal(err)
		}
		r.wait(quorum.DefaultConfig().JoinTimeout + time.Second)
		want := []quorum.ReplicaID{"a", "b"}
		if i > 0 {
			want = []quorum.ReplicaID{"a", "c"}
		}
		r.mustForm(want...)
	}
}
