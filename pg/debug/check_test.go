package debug_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestCheckConforms: as long as the ranks agree, a Check is not there, in
// sequence numbers and digests neither.
func TestCheckConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("TestDetailConforms has a Check too")
	}
	conform(t, func(b pg.Backend) pg.Backend { return debug.NewCheck(b) })
}

func checked(t *testing.T, n int) *pgtest.World {
	return pgtest.MemoryWorld(t, n, func(b pg.Backend) pg.Backend { return debug.NewCheck(b) })
}

// oddRank is the one that calls something else in disagreements.
const oddRank = 1

type disagreement struct {
	name string
	call func(g *pg.Group, rank int) *pg.Work
	says []string
}

// disagreements are ways in which three ranks can differ.
func disagreements() []disagreement {
	f32 := func(n ...int) tensor.Tensor { return tensor.New(tensor.Float32, n...) }
	return []disagreement{
		{"kind", func(g *pg.Group, rank int) *pg.Work {
			if rank == oddRank {
				return g.BroadcastAsync(f32(8), 0)
			}
			return g.AllReduceAsync(f32(8), tensor.Sum)
		}, []string{"called broadcast #2", "with root 0", "called all-reduce #2 of float32[8] by sum on cpu"}},
		{"shape", func(g *pg.Group, rank int) *pg.Work {
			shapes := [][]int{{2, 3}, {3, 2}, {2, 3}}
			return g.AllReduceAsync(f32(shapes[rank]...), tensor.Sum)
		}, []string{"float32[3 2]", "float32[2 3]"}},
		{"dtype", func(g *pg.Group, rank int) *pg.Work {
			return g.AllReduceAsync(tensor.New([]tensor.DType{tensor.Float32, tensor.Int32, tensor.Float32}[rank], 8), tensor.Sum)
		}, []string{"int32[8]", "float32[8]"}},
		{"reduce op", func(g *pg.Group, rank int) *pg.Work {
			return g.AllReduceAsync(f32(8), []tensor.ReduceOp{tensor.Sum, tensor.Max, tensor.Sum}[rank])
		}, []string{"by max", "by sum"}},
		{"root", func(g *pg.Group, rank int) *pg.Work {
			return g.BroadcastAsync(f32(8), []int{0, 2, 0}[rank])
		}, []string{"with root 2", "with root 0"}},
		{"splits", func(g *pg.Group, rank int) *pg.Work {
			in, out := []tensor.Tensor{f32(1), f32(1), f32(1)}, []tensor.Tensor{f32(1), f32(1), f32(1)}
			if rank == oddRank {
				in[0] = f32(2)
			}
			return g.AllToAllAsync(in, out)
		}, []string{"all-to-all #2 of float32[2] 2×[1]", "all-to-all #2 of float32 3×[1]"}},
		{"gathered size", func(g *pg.Group, rank int) *pg.Work {
			out := []tensor.Tensor{f32(4), f32(4), f32(4)}
			if rank == oddRank {
				out[oddRank] = f32(5)
				return g.AllGatherAsync(f32(5), out)
			}
			return g.AllGatherAsync(f32(4), out)
		}, []string{"all-gather #2 of float32[5]", "all-gather #2 of float32[4]"}},
		{"barrier", func(g *pg.Group, rank int) *pg.Work {
			if rank == oddRank {
				return g.Submit(&pg.Op{Kind: pg.KindBallot})
			}
			return g.BarrierAsync()
		}, []string{"called ballot #2", "called barrier #2"}},
	}
}

// TestCheckNamesBothSides: whatever the ranks differ in, every rank gets
// ErrMismatch with one text, which names two ranks and what each of them called.
func TestCheckNamesBothSides(t *testing.T) {
	w := checked(t, 3)
	for _, c := range disagreements() {
		t.Run(c.name, func(t *testing.T) {
			w.Configure(w.Members...)
			w.Each(func(ctx context.Context, _ int, g *pg.Group) error { return g.Barrier(ctx) })
			says := append(c.says, "rank 1 (b) called", "rank 0 (a) called")
			errs := make([]error, 3)
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				errs[rank] = c.call(g, rank).Wait(ctx)
				return nil
			})
			for rank, err := range errs {
				if !errors.Is(err, pg.ErrMismatch) {
					t.Fatalf("rank %d: %v, want ErrMismatch", rank, err)
				}
				for _, word := range says {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("rank %d: %q does not say %q", rank, err, word)
					}
				}
				if e, ok := errors.AsType[*pg.OpError](err); !ok || e.Peer != oddRank && c.name != "splits" || e.Seq != 2 {
					t.Errorf("rank %d: %v does not blame rank %d for collective 2", rank, err, oddRank)
				}
				if w.Groups[rank].Err() == nil {
					t.Errorf("rank %d: group is not broken", rank)
				}
			}
		})
	}
}

// TestCheckNamesTheMissing: a rank that does not come is named at the deadline.
func TestCheckNamesTheMissing(t *testing.T) {
	w := checked(t, 3)
	x := tensor.Of([]float32{1, 2})
	other := w.Groups[2].AllReduceAsync(tensor.Of([]float32{1, 2}), tensor.Sum) // before the deadline is set
	work := w.Groups[0].Submit(&pg.Op{
		Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(50 * time.Millisecond),
	})
	err := work.Wait(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "rank 1 (b) did not call all-reduce #1 of float32[2] by sum on cpu") {
		t.Errorf("at the deadline: %v, want rank 1 named", err)
	}
	if e, ok := errors.AsType[*pg.OpError](err); !ok || e.Peer != 1 || e.PeerID != "b" || e.Op != pg.KindAllReduce {
		t.Errorf("error %+v, want one that blames rank 1 in an all-reduce", e)
	}
	if err := other.Wait(t.Context()); err == nil {
		t.Error("the other rank's op succeeded")
	}
}

// TestCheckTouchesNothing: what the ranks disagree on is not run.
func TestCheckTouchesNothing(t *testing.T) {
	w := checked(t, 2)
	xs := [][]float32{{1, 2}, {3, 4, 5}}
	errs := make([]error, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		errs[rank] = g.AllReduce(ctx, tensor.Of(xs[rank]), tensor.Sum)
		return nil
	})
	if fmt.Sprint(xs) != "[[1 2] [3 4 5]]" || errs[0] == nil || errs[1] == nil {
		t.Errorf("tensors %v, errors %v; want them as they were, and errors", xs, errs)
	}
}

// TestCheckOneSided: a rank without Check is told apart, not misread.
func TestCheckOneSided(t *testing.T) {
	n := 0
	w := pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend {
		if n++; n == 1 {
			return debug.NewCheck(b)
		}
		return b
	})
	with := w.Groups[0].BarrierAsync()
	without := w.Groups[1].Submit(&pg.Op{Kind: pg.KindBallot, Ballot: []byte("mine")})
	if err := with.Wait(t.Context()); !errors.Is(err, pg.ErrMismatch) || !strings.Contains(err.Error(), "runs without Check") {
		t.Errorf("with Check: %v, want ErrMismatch that says so", err)
	}
	if err := without.Wait(t.Context()); err != nil {
		t.Errorf("without Check: %v", err)
	}
}

// TestCheckSendsPass: sends and receives do not wait for a collective that a
// peer has not called yet.
func TestCheckSendsPass(t *testing.T) {
	w := checked(t, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []int32{int32(rank)}
		if rank == 0 {
			barrier := g.BarrierAsync()
			return errors.Join(g.Send(ctx, tensor.Of(x), pg.Envelope{Peer: 1}), barrier.Wait(ctx))
		}
		_, err := g.Recv(ctx, tensor.Of(x), pg.Envelope{Peer: 0})
		return errors.Join(err, g.Barrier(ctx))
	})
}
