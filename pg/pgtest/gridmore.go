package pgtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// moreVerbs are rows that are made of others, or differ from one in a detail.
func moreVerbs() []gridVerb {
	one := func(k pg.Kind) []pg.Kind { return []pg.Kind{k} }
	messages := []pg.Kind{pg.KindSend, pg.KindRecv}
	batched := func(k pg.Kind) []pg.Kind { return []pg.Kind{k, pg.KindBatch} }
	return []gridVerb{
		{"gather into tensor", one(pg.KindGather), 1, false, gridGatherIntoTensor},
		{"scatter tensor", one(pg.KindScatter), 1, false, gridScatterTensor},
		{"all-to-all uneven", one(pg.KindAllToAll), 1, false, gridAllToAllUneven},
		{"recv from any", messages, 2, false, gridRecvAny},
		{"all-reduce multi", one(pg.KindAllReduce), 1, true, gridAllReduceMulti},
		{"reduce multi", one(pg.KindReduce), 1, true, gridReduceMulti},
		{"reduce-scatter multi", batched(pg.KindReduceScatter), 1, true, gridReduceScatterMulti},
		{"broadcast multi", one(pg.KindBroadcast), 1, false, gridBroadcastMulti},
		{"all-gather multi", batched(pg.KindAllGather), 1, false, gridAllGatherMulti},
	}
}

func gridGatherIntoTensor(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	var out tensor.Tensor
	if g.Rank() == root {
		out = tensor.New(c.DType, c.slot()*c.World)
	}
	if err := g.GatherIntoTensor(ctx, c.give(g.Rank(), 0, c.slot()), out, root); err != nil || g.Rank() != root {
		return err
	}
	return c.everybody(c.parts(out), 0)
}

func gridScatterTensor(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	var in tensor.Tensor
	if g.Rank() == root {
		in = c.flatInput(root)
	}
	out := tensor.New(c.DType, c.slot())
	if err := g.ScatterTensor(ctx, in, out, root); err != nil {
		return err
	}
	return c.gaveBy(out, root, g.Rank())
}

// gridAllToAllUneven: what rank a gives rank b grows with both.
func gridAllToAllUneven(ctx context.Context, g *pg.Group, c Cell) error {
	share := func(from, to int) int { return c.slot() * (from + to + 1) / (2 * c.World) }
	var s pg.Splits
	sent, got := 0, 0
	for rank := range c.World {
		s.In, s.Out = append(s.In, share(g.Rank(), rank)), append(s.Out, share(rank, g.Rank()))
		sent, got = sent+s.In[rank], got+s.Out[rank]
	}
	in, out := tensor.New(c.DType, sent), tensor.New(c.DType, got)
	for rank, at := 0, 0; rank < c.World; rank++ {
		Fill(in.Slice(at, at+s.In[rank]), seedOf(c.Bytes, g.Rank(), rank))
		at += s.In[rank]
	}
	if err := g.AllToAllSingle(ctx, in, out, s); err != nil {
		return err
	}
	for rank, at := 0, 0; rank < c.World; rank++ {
		if err := c.gaveBy(out.Slice(at, at+s.Out[rank]), rank, g.Rank()); err != nil {
			return fmt.Errorf("of rank %d: %w", rank, err)
		}
		at += s.Out[rank]
	}
	return nil
}

// gridRecvAny: everybody sends to both neighbours, and receives from whom it
// may be.
func gridRecvAny(ctx context.Context, g *pg.Group, c Cell) error {
	next, prev := neighbours(g)
	to := []int{next}
	if prev != next {
		to = append(to, prev)
	}
	const tag = 5
	var sends []*pg.Work
	for _, peer := range to {
		sends = append(sends, g.SendAsync(c.give(g.Rank(), 0, c.slot()), pg.Envelope{Peer: peer, Tag: tag}))
	}
	seen := make(map[int]bool)
	for range to {
		got := tensor.New(c.DType, c.slot())
		from, err := g.Recv(ctx, got, pg.Envelope{Peer: pg.AnySource, Tag: tag})
		if err != nil {
			return err
		}
		if seen[from] || from != next && from != prev {
			return fmt.Errorf("message from rank %d, want one from each of %d and %d", from, next, prev)
		}
		seen[from] = true
		if err := c.gaveBy(got, from, 0); err != nil {
			return fmt.Errorf("from rank %d: %w", from, err)
		}
	}
	for _, w := range sends {
		if err := w.Wait(ctx); err != nil {
			return err
		}
	}
	// A faster rank must not be heard in the place of this round's sender.
	return g.Barrier(ctx)
}

// perRank is how many tensors each rank gives to a multi-tensor verb.
const perRank = 2

// mine is this rank's tensors of a multi-tensor verb: slots 0 and 1.
func (c Cell) mine(rank, n int) []tensor.Tensor {
	return []tensor.Tensor{c.give(rank, 0, n), c.give(rank, 1, n)}
}

// sumOfSums checks that got is what all ranks gave to some slots, each rank's
// folded first.
func (c Cell) sumOfSums(got tensor.Tensor, given ...int) error {
	period := min(got.Len(), drawnElements)
	local := Reduction{Op: c.Reduce}
	if c.Reduce == tensor.Avg {
		local.Op = tensor.Sum
	}
	folded := make([][]byte, c.World)
	for rank := range folded {
		var inputs [][]byte
		for _, slot := range given {
			inputs = append(inputs, c.give(rank, slot, period).Bytes())
		}
		folded[rank] = Reference(c.DType, local, inputs)
	}
	r := Reduction{Op: c.Reduce, Divisor: c.World * len(given)}
	return periodic(c.DType, got.Bytes(), Reference(c.DType, r, folded))
}

func gridAllReduceMulti(ctx context.Context, g *pg.Group, c Cell) error {
	ts := c.mine(g.Rank(), c.slot())
	if err := dist.AllReduceMulti(ctx, g, ts, c.Reduce); err != nil {
		return err
	}
	return errors.Join(c.sumOfSums(ts[0], 0, 1), c.sumOfSums(ts[1], 0, 1))
}

func gridReduceMulti(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	ts := c.mine(g.Rank(), c.slot())
	if err := dist.ReduceMulti(ctx, g, ts, c.Reduce, dist.RootTensor{Root: root, Tensor: 1}); err != nil {
		return err
	}
	if g.Rank() != root {
		return errors.Join(c.gaveBy(ts[0], g.Rank(), 0), c.gaveBy(ts[1], g.Rank(), 1))
	}
	return c.sumOfSums(ts[1], 0, 1)
}

func gridReduceScatterMulti(ctx context.Context, g *pg.Group, c Cell) error {
	n := c.slot() / perRank
	list := func(i int) []tensor.Tensor {
		return slots(c.World*perRank, func(slot int) tensor.Tensor { return c.give(g.Rank(), i*c.World*perRank+slot, n) })
	}
	out := []tensor.Tensor{tensor.New(c.DType, n), tensor.New(c.DType, n)}
	if err := dist.ReduceScatterMulti(ctx, g, [][]tensor.Tensor{list(0), list(1)}, out, c.Reduce); err != nil {
		return err
	}
	for j, t := range out {
		at := g.Rank()*perRank + j
		if err := c.sumOfSums(t, at, c.World*perRank+at); err != nil {
			return fmt.Errorf("tensor %d: %w", j, err)
		}
	}
	return nil
}

func gridBroadcastMulti(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	ts := c.mine(g.Rank(), c.slot())
	if err := dist.BroadcastMulti(ctx, g, ts, dist.RootTensor{Root: root, Tensor: 1}); err != nil {
		return err
	}
	return errors.Join(c.gaveBy(ts[0], root, 1), c.gaveBy(ts[1], root, 1))
}

func gridAllGatherMulti(ctx context.Context, g *pg.Group, c Cell) error {
	n := c.slot() / perRank
	out := [][]tensor.Tensor{nil, nil}
	for i := range out {
		out[i] = slots(c.World*perRank, func(int) tensor.Tensor { return tensor.New(c.DType, n) })
	}
	if err := dist.AllGatherMulti(ctx, g, c.mine(g.Rank(), n), out); err != nil {
		return err
	}
	for i := range out {
		for at, t := range out[i] {
			if err := c.gaveBy(t, at/perRank, at%perRank); err != nil {
				return fmt.Errorf("list %d, tensor %d: %w", i, at, err)
			}
		}
	}
	return nil
}
