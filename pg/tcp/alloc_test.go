package tcp

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// verb is one op of two ranks, as often as wanted.
type verb struct {
	name string
	run  func(ctx context.Context, g *pg.Group, rank int) error
}

// verbs are all that move tensors, of n elements.
func verbs(n int) []verb {
	var in, out [2]tensor.Tensor
	var ins, outs [2][]tensor.Tensor
	for r := range in {
		in[r], out[r] = tensor.Of(make([]float32, n)), tensor.Of(make([]float32, n))
		ins[r], outs[r] = fresh(2, n), fresh(2, n)
	}
	only := func(rank, root int, s []tensor.Tensor) []tensor.Tensor {
		if rank == root {
			return s
		}
		return nil
	}
	return []verb{
		{"all-reduce", func(ctx context.Context, g *pg.Group, r int) error { return g.AllReduce(ctx, in[r], tensor.Sum) }},
		{"reduce", func(ctx context.Context, g *pg.Group, r int) error { return g.Reduce(ctx, in[r], tensor.Sum, 1) }},
		{"broadcast", func(ctx context.Context, g *pg.Group, r int) error { return g.Broadcast(ctx, in[r], 0) }},
		{"all-gather", func(ctx context.Context, g *pg.Group, r int) error { return g.AllGather(ctx, in[r], outs[r]) }},
		{"gather", func(ctx context.Context, g *pg.Group, r int) error {
			return g.Gather(ctx, in[r], only(r, 0, outs[r]), 0)
		}},
		{"scatter", func(ctx context.Context, g *pg.Group, r int) error {
			return g.Scatter(ctx, only(r, 1, ins[r]), out[r], 1)
		}},
		{"reduce-scatter", func(ctx context.Context, g *pg.Group, r int) error {
			return g.ReduceScatter(ctx, ins[r], out[r], tensor.Sum)
		}},
		{"all-to-all", func(ctx context.Context, g *pg.Group, r int) error { return g.AllToAll(ctx, ins[r], outs[r]) }},
		{"barrier", func(ctx context.Context, g *pg.Group, r int) error { return g.Barrier(ctx) }},
		{"send and receive", func(ctx context.Context, g *pg.Group, r int) error {
			if r == 0 {
				return g.Send(ctx, in[r], pg.Envelope{Peer: 1})
			}
			_, err := g.Recv(ctx, out[r], pg.Envelope{Peer: 0})
			return err
		}},
	}
}

// TestAllocatesNothing: once warm, no verb allocates, over shared memory or
// sockets, with small tensors or large ones. Not parallel: it counts what the whole
// process allocates. That may be a beat's now and then, or one more buffer where the ranks
// meet as they never have: an op that allocates does so in each of the counts, so the least counts.
func TestAllocatesNothing(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	if *overTLS {
		t.Skip("crypto/tls allocates, twice a record")
	}
	const runs = 200
	for _, transport := range []Transport{TransportShared, TransportTCP} {
		w := newWorld(t, 2, Options{Transport: transport})
		groups := []*pg.Group{pg.NewGroup(w.backends[0]), pg.NewGroup(w.backends[1])}
		var wg sync.WaitGroup
		for r, g := range groups {
			wg.Go(func() {
				if err := g.Configure(t.Context(), w.config(1, w.everybody(), r)); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		wg.Wait()
		for _, n := range []int{100, 200_000} {
			for _, v := range verbs(n) {
				repeat(t, groups, v, 50)
				got := repeat(t, groups, v, runs)
				for range 3 {
					if got <= runs/4 {
						break
					}
					got = min(got, repeat(t, groups, v, runs))
				}
				if got > runs/4 {
					t.Errorf("%s of %d elements over %v: %d allocations in %d runs of two ranks", v.name, n, transport, got, runs)
				}
			}
		}
	}
}

// repeat has both ranks run v so often, and counts allocations.
func repeat(t *testing.T, groups []*pg.Group, v verb, times int) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for r, g := range groups {
		wg.Go(func() {
			for range times {
				err := v.run(t.Context(), g, r)
				if err == nil { // else one side runs ahead, as far as the window lets it
					err = g.Barrier(t.Context())
				}
				if err != nil {
					t.Errorf("%s: rank %d: %v", v.name, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}
