package pgtest

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

func gridBroadcast(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	x := tensor.New(c.DType, c.elements())
	if g.Rank() == root {
		Fill(x, seedOf(c.Bytes, root, 0))
	}
	if err := g.Broadcast(ctx, x, root); err != nil {
		return err
	}
	return c.gaveBy(x, root, 0)
}

// everybody checks that slot r is what rank r gave.
func (c Cell) everybody(got []tensor.Tensor, slot int) error {
	for rank, t := range got {
		if err := c.gaveBy(t, rank, slot); err != nil {
			return fmt.Errorf("of rank %d: %w", rank, err)
		}
	}
	return nil
}

// empty is a slot for every rank.
func (c Cell) empty(n int) []tensor.Tensor {
	return slots(c.World, func(int) tensor.Tensor { return tensor.New(c.DType, n) })
}

// parts are the slots of a flat tensor.
func (c Cell) parts(t tensor.Tensor) []tensor.Tensor {
	return slots(c.World, func(slot int) tensor.Tensor { return t.Slice(slot*c.slot(), (slot+1)*c.slot()) })
}

func gridAllGather(ctx context.Context, g *pg.Group, c Cell) error {
	out := c.empty(c.slot())
	if err := g.AllGather(ctx, c.give(g.Rank(), 0, c.slot()), out); err != nil {
		return err
	}
	return c.everybody(out, 0)
}

func gridAllGatherIntoTensor(ctx context.Context, g *pg.Group, c Cell) error {
	out := tensor.New(c.DType, c.slot()*c.World)
	if err := g.AllGatherIntoTensor(ctx, c.give(g.Rank(), 0, c.slot()), out); err != nil {
		return err
	}
	return c.everybody(c.parts(out), 0)
}

func gridAllGatherCoalesced(ctx context.Context, g *pg.Group, c Cell) error {
	var in []tensor.Tensor
	for i := range 2 {
		in = append(in, c.give(g.Rank(), i, c.slot()/2+i))
	}
	out := make([][]tensor.Tensor, c.World)
	for r := range out {
		out[r] = []tensor.Tensor{tensor.New(c.DType, c.slot()/2), tensor.New(c.DType, c.slot()/2+1)}
	}
	if err := g.AllGatherCoalesced(ctx, in, out); err != nil {
		return err
	}
	for r := range out {
		for i, t := range out[r] {
			if err := c.gaveBy(t, r, i); err != nil {
				return fmt.Errorf("tensor %d of rank %d: %w", i, r, err)
			}
		}
	}
	return nil
}

func gridAllGatherUneven(ctx context.Context, g *pg.Group, c Cell) error {
	length := func(rank int) int { return c.slot() * (rank + 1) / c.World }
	out, err := dist.AllGatherUneven(ctx, g, c.give(g.Rank(), 0, length(g.Rank())))
	if err != nil {
		return err
	}
	for rank, t := range out {
		if t.Len() != length(rank) {
			return fmt.Errorf("%d elements of rank %d, want %d", t.Len(), rank, length(rank))
		}
	}
	return c.everybody(out, 0)
}

func gridGather(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	var out []tensor.Tensor
	if g.Rank() == root {
		out = c.empty(c.slot())
	}
	if err := g.Gather(ctx, c.give(g.Rank(), 0, c.slot()), out, root); err != nil {
		return err
	}
	return c.everybody(out, 0)
}

func gridScatter(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	var in []tensor.Tensor
	if g.Rank() == root {
		in = slots(c.World, func(slot int) tensor.Tensor { return c.give(root, slot, c.slot()) })
	}
	out := tensor.New(c.DType, c.slot())
	if err := g.Scatter(ctx, in, out, root); err != nil {
		return err
	}
	return c.gaveBy(out, root, g.Rank())
}

func gridAllToAll(ctx context.Context, g *pg.Group, c Cell) error {
	in := slots(c.World, func(slot int) tensor.Tensor { return c.give(g.Rank(), slot, c.slot()) })
	out := c.empty(c.slot())
	if err := g.AllToAll(ctx, in, out); err != nil {
		return err
	}
	return c.everybody(out, g.Rank())
}

func gridAllToAllSingle(ctx context.Context, g *pg.Group, c Cell) error {
	out := tensor.New(c.DType, c.slot()*c.World)
	if err := g.AllToAllSingle(ctx, c.flatInput(g.Rank()), out, pg.Splits{}); err != nil {
		return err
	}
	return c.everybody(c.parts(out), g.Rank())
}

// neighbours are the ranks after and before this one.
func neighbours(g *pg.Group) (next, prev int) {
	n, rank := g.Size(), g.Rank()
	return (rank + 1) % n, (rank + n - 1) % n
}

func gridSendRecv(ctx context.Context, g *pg.Group, c Cell) error {
	next, prev := neighbours(g)
	work := g.SendAsync(c.give(g.Rank(), 0, c.elements()), pg.Envelope{Peer: next, Tag: c.Bytes})
	got := tensor.New(c.DType, c.elements())
	from, err := g.Recv(ctx, got, pg.Envelope{Peer: prev, Tag: c.Bytes})
	if err == nil && from != prev {
		err = fmt.Errorf("message from rank %d, want %d", from, prev)
	}
	if err == nil {
		err = work.Wait(ctx)
	}
	if err != nil {
		return err
	}
	return c.gaveBy(got, prev, 0)
}

func gridBatch(ctx context.Context, g *pg.Group, c Cell) error {
	next, prev := neighbours(g)
	a, b := tensor.New(c.DType, c.slot()), tensor.New(c.DType, c.slot())
	err := g.BatchSendRecv(ctx, []*pg.Op{
		pg.SendOp(c.give(g.Rank(), 0, c.slot()), pg.Envelope{Peer: next, Tag: 1}),
		pg.RecvOp(a, pg.Envelope{Peer: prev, Tag: 1}),
		pg.SendOp(c.give(g.Rank(), 1, c.slot()), pg.Envelope{Peer: prev, Tag: 2}),
		pg.RecvOp(b, pg.Envelope{Peer: next, Tag: 2}),
	})
	if err != nil {
		return err
	}
	if err := c.gaveBy(a, prev, 0); err != nil {
		return err
	}
	return c.gaveBy(b, next, 1)
}
