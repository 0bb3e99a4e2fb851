package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// leftOver is what became of a rank's ops in a quorum that one of the ranks leaves.
type leftOver struct {
	err      error // of the last op
	good     []goodOp
	poisoned [][]float32 // memory of ops that are over
}

// goodOp is one that succeeded, with a copy of what it gave.
type goodOp struct {
	kind kindCase
	op   *pg.Op
	n    int
}

// TestLeaveStorm: a rank leaves as soon as an op of any kind is over for it, while
// the others are in that one or in the next. What is reported good is right on every
// rank, and nobody touches memory that is its caller's again: it is overwritten at
// once, so that a late read would send that, and a late write would be seen.
func TestLeaveStorm(t *testing.T) {
	t.Parallel()
	const world = 3
	rounds := int64(10)
	if *wholeSuite {
		rounds = 80
	}
	for name, opt := range map[string]Options{
		"shared": {}, "one stream": {Transport: TransportTCP}, "streams": striped(3),
		"streams that overtake": {Transport: TransportTCP, Streams: 3, Fault: shuffled(new([MaxStreams]atomic.Int64))},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "one stream" || name == "streams" { // as those that overtake
				testkit.Long(t)
			}
			t.Parallel()
			w := newWorld(t, world, opt)
			good := 0
			for q := int64(1); q <= rounds; q++ {
				w.configure(q)
				good += w.leaveStorm(q)
			}
			if good == 0 {
				t.Error("no op was over before a rank left")
			}
		})
	}
}

// leaveStorm is one quorum of it; it tells how many ops succeeded.
func (w *world) leaveStorm(q int64) int {
	w.t.Helper()
	var wg sync.WaitGroup
	over := make([]leftOver, len(w.backends))
	for r := range w.backends {
		wg.Go(func() { over[r] = w.leaveRank(q, r) })
	}
	wg.Wait()
	good := 0
	for r, o := range over {
		if o.err != nil && (!errors.Is(o.err, pg.ErrAborted) || errors.Is(o.err, ErrCorrupt)) {
			w.t.Errorf("quorum %d, rank %d: %v, want it aborted", q, r, o.err)
		}
		for i, g := range o.good {
			g.kind.check(w.t.(*testing.T), g.op, r, len(w.backends), g.n)
			if w.t.Failed() {
				w.t.Fatalf("quorum %d, rank %d, op %d", q, r, i)
			}
		}
		for _, x := range o.poisoned {
			untouchedPoison(w.t.(*testing.T), fmt.Sprintf("quorum %d, rank %d", q, r), x)
		}
		good += len(o.good)
	}
	return good
}

// leaveRank runs ops, the same on all ranks, until one fails, or this is the rank
// that leaves.
func (w *world) leaveRank(q int64, rank int) (over leftOver) {
	order := rand.New(rand.NewPCG(uint64(q), 3))
	leaver, last := order.IntN(len(w.backends)), order.IntN(6)
	kinds := append(kindCases(), kindCase{name: "messages"})
	for i := 0; ; i++ {
		kind, n := kinds[order.IntN(len(kinds))], 1+order.IntN(3)*order.IntN(200_000)
		ops := []*pg.Op{nil}
		if kind.op != nil {
			ops[0] = kind.op(rank, len(w.backends), n)
		} else {
			ops, kind.check = w.ring(rank, n)
		}
		works := make([]*pg.Work, len(ops))
		for k := range ops {
			works[k] = w.backends[rank].Submit(ops[k])
		}
		for k, op := range ops {
			if err := wait(w.t, works[k]); err != nil {
				over.err = err
			} else {
				done := *op
				done.Out = nil
				for _, x := range op.Out {
					done.Out = append(done.Out, tensor.Of(slices.Clone(tensor.Slice[float32](x))))
				}
				over.good = append(over.good, goodOp{kind, &done, n})
			}
			for _, x := range slices.Concat(op.In, op.Out) {
				memory := tensor.Slice[float32](x)
				poison(memory)
				over.poisoned = append(over.poisoned, memory)
			}
		}
		if over.err != nil || i > last {
			return over
		}
		if rank == leaver && i == last {
			w.depart(rank)
			return over
		}
	}
}

// ring sends to the next rank and receives from the one before.
func (w *world) ring(rank, n int) ([]*pg.Op, func(*testing.T, *pg.Op, int, int, int)) {
	world := len(w.backends)
	next, before := (rank+1)%world, (rank+world-1)%world
	return []*pg.Op{
			{Kind: pg.KindSend, In: tensors(pattern(rank, n)), Peer: next},
			{Kind: pg.KindRecv, Out: fresh(1, n), Peer: before},
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			for i := range op.Out {
				equal(t, fmt.Sprintf("message of rank %d", before), out(op, i), pattern(before, n))
			}
		}
}
