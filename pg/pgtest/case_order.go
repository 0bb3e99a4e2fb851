package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// testOrder: async ops run in the order of submission, whatever their size and
// kind, so that ops on one tensor follow one another; sequence numbers rise by
// one and are equal on all ranks; waiting in another order does no harm.
func testOrder(t *testing.T, h Harness) {
	const worldSize, rounds = 3, 20
	w := newWorld(t, h, worldSize)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		chained := []float64{float64(rank + 1)}
		var works []*pg.Work
		for i := range rounds {
			big := tensor.New(tensor.Float32, (i%4)*40_000)
			works = append(works,
				g.AllReduceAsync(tensor.Of(chained), tensor.Max),
				g.AllReduceAsync(big, tensor.Sum),
				g.BroadcastAsync(tensor.Of(chained), i%worldSize),
				g.AllReduceAsync(tensor.Of(chained), tensor.Sum))
		}
		for i := len(works) - 1; i >= 0; i-- {
			if err := works[i].Wait(ctx); err != nil {
				return fmt.Errorf("op %d: %w", i, err)
			}
		}
		for i, work := range works {
			if seq := work.Op().Seq; seq != uint64(i+1) {
				return fmt.Errorf("op %d has sequence number %d, want %d", i, seq, i+1)
			}
			if e := work.Op().Epoch; e != w.Epoch() {
				return fmt.Errorf("op %d has epoch %v, want %v", i, e, w.Epoch())
			}
		}
		want := 3.0 // the greatest of 1 to 3
		for range rounds {
			want *= worldSize
		}
		if chained[0] != want {
			return fmt.Errorf("chained ops gave %v, want %v", chained[0], want)
		}
		return nil
	})
}

// testPointToPoint: messages of one sender and tag arrive in order; tags do
// not mix; collectives in between do not disturb, nor need the same place in
// the order of calls.
func testPointToPoint(t *testing.T, h Harness) {
	const messages = 8
	sizes := []int{1, 0, 1021, 70_001}
	for worldSize := 2; worldSize <= min(4, h.MaxWorldSize); worldSize++ {
		w := newWorld(t, h, worldSize)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			next, prev := (rank+1)%worldSize, (rank+worldSize-1)%worldSize
			var works []*pg.Work
			for i := range messages {
				for tag := range 2 {
					x := input(tensor.Float32, sizes[i%len(sizes)], seedOf(i, rank, tag))
					works = append(works, g.SendAsync(x, pg.Envelope{Peer: next, Tag: tag}))
				}
			}
			if rank%2 == 0 {
				works = append(works, g.BarrierAsync())
			}
			for tag := 1; tag >= 0; tag-- {
				for i := range messages {
					n := sizes[i%len(sizes)]
					x := tensor.New(tensor.Float32, n)
					from, err := g.Recv(ctx, x, pg.Envelope{Peer: prev, Tag: tag})
					if err != nil || from != prev {
						return fmt.Errorf("message %d tag %d from %d, want %d: %w", i, tag, from, prev, err)
					}
					want := input(tensor.Float32, n, seedOf(i, prev, tag))
					if err := same(tensor.Float32, x.Bytes(), want.Bytes()); err != nil {
						return fmt.Errorf("message %d tag %d: %w", i, tag, err)
					}
				}
			}
			if rank%2 == 1 {
				works = append(works, g.BarrierAsync())
			}
			return waitAll(ctx, works)
		})
	}
}

func waitAll(ctx context.Context, works []*pg.Work) error {
	var errs []error
	for _, work := range works {
		errs = append(errs, work.Wait(ctx))
	}
	return errors.Join(errs...)
}

// testAnySource: a receive from anybody takes each message once, tells who
// sent it, and leaves the messages of other tags alone.
func testAnySource(t *testing.T, h Harness) {
	const worldSize, messages = 4, 5
	w := newWorld(t, h, worldSize)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		if rank != 0 {
			for i := range messages {
				if err := g.Send(ctx, tensor.Of([]int64{int64(rank*100 + i)}), pg.Envelope{Peer: 0, Tag: 7}); err != nil {
					return err
				}
			}
			return g.Send(ctx, tensor.Of([]int64{int64(-rank)}), pg.Envelope{Peer: 0, Tag: 8})
		}
		next := make([]int, worldSize)
		got := make([]int64, 1)
		for range messages * (worldSize - 1) {
			from, err := g.Recv(ctx, tensor.Of(got), pg.Envelope{Peer: pg.AnySource, Tag: 7})
			if err != nil {
				return err
			}
			if want := int64(from*100 + next[from]); got[0] != want {
				return fmt.Errorf("received %d from rank %d, want %d", got[0], from, want)
			}
			next[from]++
		}
		for peer := 1; peer < worldSize; peer++ {
			if _, err := g.Recv(ctx, tensor.Of(got), pg.Envelope{Peer: peer, Tag: 8}); err != nil || got[0] != int64(-peer) {
				return fmt.Errorf("received %d from rank %d under tag 8: %w", got[0], peer, err)
			}
		}
		return nil
	})
}
