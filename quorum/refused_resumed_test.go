package quorum_test

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// The position at which a process begins, out of a checkpoint that the members of the
// quorum that stands have written, is no commit of its own: it speaks for nobody, and
// ends no refusal (L1). (A late-comer of another version that was started again and again
// broke a quorum each time.)
func TestL1_WhoBeginsAtTheMembersPositionIsRefusedAllTheSame(t *testing.T) {
	t.Parallel()
	for _, fresh := range []int{0, 1, 2} { // so often it begins at step 0 first
		r := standing(t, quorum.DefaultConfig(), "a", "b")
		r.commit("a", "b")
		r.beat()
		broke := 0
		for turn := range 8 {
			c := quorum.ReplicaID(fmt.Sprintf("c:00000000-0000-0000-0000-%012d", turn))
			if turn >= fresh {
				r.pos[c] = r.pos["a"]
			}
			r.open(c)
			r.fall(c, quorum.Fact{})
			r.ask("a")
			r.ask("b")
			q := r.mustForm()
			if len(q.Members) < 3 {
				r.up[c] = false
				r.m.Broken(r.now, c, "EOF", false)
				continue
			}
			broke++
			for _, by := range []quorum.ReplicaID{"a", "b"} {
				a := differs(by, c)
				a.QuorumID = q.ID
				if err := r.m.Accuse(r.now, a); err != nil {
					t.Fatal(err)
				}
			}
			r.die(c, "a")
			r.fall("a", quorum.Fact{})
			r.fall("b", quorum.Fact{})
			r.mustForm("a", "b")
			r.commit("a", "b")
			r.beat()
		}
		if broke != 2 {
			t.Errorf("%d times fresh: it broke %d quorums of 8 at once, want 2", fresh, broke)
		}
	}
}
