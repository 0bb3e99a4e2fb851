package pg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestPending starts two ops before it waits for either, again and again.
func TestPending(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var a, b pg.Pending
		x, y := []float32{0}, []int32{0}
		for i := range 20 {
			x[0], y[0] = float32(rank+i), int32(rank+1)
			a.Start(g, pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Sum}, tensor.Of(x), tensor.Of(x))
			b.Start(g, pg.Op{Kind: pg.KindBroadcast, Root: 1}, tensor.Of(y), tensor.Of(y))
			if err := errors.Join(b.Wait(ctx), a.Wait(ctx), a.Wait(ctx)); err != nil {
				return err
			}
			if x[0] != float32(2*i+1) || y[0] != 2 || !a.Done() {
				t.Errorf("rank %d: %v, %v, want %v, 2", rank, x, y, 2*i+1)
			}
		}
		return nil
	})
}

// TestPendingEnds: ctx's end ends the op, and the next is another one.
func TestPendingEnds(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil) // and the other rank does not come
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	x := tensor.Of([]float32{1})
	var p pg.Pending
	p.Start(w.Groups[0], pg.Op{Kind: pg.KindAllReduce}, x, x)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Start with an op under way did not panic")
			}
		}()
		p.Start(w.Groups[0], pg.Op{Kind: pg.KindAllReduce}, x, x)
	}()
	if err := p.Wait(ctx); !errors.Is(err, gone) {
		t.Errorf("wait: %v, want %v", err, gone)
	}
	p.Start(w.Groups[0], pg.Op{Kind: pg.KindAllReduce}, x, x)
	if err := p.Wait(t.Context()); !errors.Is(err, pg.ErrAborted) {
		t.Errorf("after it: %v, want ErrAborted", err)
	}
}

func BenchmarkPending(b *testing.B) {
	g := pg.NewGroup(dummy.New())
	if err := g.Configure(b.Context(), pg.Config{ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
		b.Fatal(err)
	}
	x := tensor.Of(make([]float32, 4))
	var p pg.Pending
	b.ReportAllocs()
	for b.Loop() {
		p.Start(g, pg.Op{Kind: pg.KindAllReduce}, x, x)
		if err := p.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
