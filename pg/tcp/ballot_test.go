package tcp

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// TestBallotCut cuts a ballot exchange at every one of its messages: whoever
// does not complete it still has what came, and the others' payloads are right.
func TestBallotCut(t *testing.T) {
	t.Parallel()
	const world = 3
	for _, action := range []struct {
		name string
		do   Action
	}{{"close", Action{Close: true}}, {"corrupt", Action{Corrupt: true}}} {
		for from := range world {
			for to := range world {
				if from == to {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d-%d", action.name, from, to), func(t *testing.T) {
					t.Parallel()
					cutBallot(t, world, from, to, action.do)
				})
			}
		}
	}
}

func cutBallot(t *testing.T, world, from, to int, do Action) {
	opts := make([]Options, world)
	var cut atomic.Int32
	opts[from].Fault = func(f FrameInfo) Action {
		if f.Type == "data" && f.Kind == pg.KindBallot && f.To == to {
			cut.Add(1)
			return do
		}
		return Action{}
	}
	w := newWorldOf(t, opts)
	w.configure(1)
	w.reduceOK(w.everybody(), 5000)
	ops := make([]*pg.Op, world)
	errs := w.all(w.everybody(), func(r int) *pg.Op {
		ops[r] = &pg.Op{Kind: pg.KindBallot, Ballot: fmt.Appendf(nil, "from %d", r)}
		return ops[r]
	})
	if cut.Load() != 1 {
		t.Fatalf("%d ballots were cut, want 1", cut.Load())
	}
	if errs[to] == nil {
		t.Errorf("rank %d has all ballots, though that of %d was cut", to, from)
	}
	if len(ops[to].Ballots) == world && ops[to].Ballots[from].Here {
		t.Errorf("rank %d has the ballot of %d, which was cut", to, from)
	}
	for r, op := range ops {
		if errs[r] == nil && len(op.Ballots) != world {
			t.Errorf("rank %d: %d ballots, want %d", r, len(op.Ballots), world)
		}
		for sender, e := range op.Ballots {
			digest := e.Digest.Valid || sender == r && errs[r] != nil // its own, if the group broke before the exchange began
			if e.Here && (string(e.Payload) != fmt.Sprintf("from %d", sender) || !digest) {
				t.Errorf("rank %d from %d: %q %+v", r, sender, e.Payload, e.Digest)
			}
			if errs[r] == nil && !e.Here {
				t.Errorf("rank %d succeeded without the ballot of %d", r, sender)
			}
		}
	}
	w.configure(2)
	w.reduceOK(w.everybody(), 5000)
}
