package pgtest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// gridVerb is a row of the grid.
type gridVerb struct {
	name    string
	kinds   []pg.Kind
	least   int // world size
	reduces bool
	run     func(ctx context.Context, g *pg.Group, c Cell) error
}

func verbs() []gridVerb {
	reduce, gather, scatter := pg.KindAllReduce, pg.KindAllGather, pg.KindReduceScatter
	one := func(k pg.Kind) []pg.Kind { return []pg.Kind{k} }
	with := func(k pg.Kind) []pg.Kind { return []pg.Kind{k, pg.KindBatch} }
	return append([]gridVerb{
		{"all-reduce", one(reduce), 1, true, gridAllReduce},
		{"all-reduce async", one(reduce), 1, true, gridAllReduceAsync},
		{"all-reduce coalesced", one(reduce), 1, true, gridAllReduceCoalesced},
		{"reduce", one(pg.KindReduce), 1, true, gridReduce},
		{"reduce-scatter", one(scatter), 1, true, gridReduceScatter},
		{"reduce-scatter tensor", one(scatter), 1, true, gridReduceScatterTensor},
		{"reduce-scatter coalesced", with(scatter), 1, true, gridReduceScatterCoalesced},
		{"broadcast", one(pg.KindBroadcast), 1, false, gridBroadcast},
		{"all-gather", one(gather), 1, false, gridAllGather},
		{"all-gather into tensor", one(gather), 1, false, gridAllGatherIntoTensor},
		{"all-gather coalesced", with(gather), 1, false, gridAllGatherCoalesced},
		{"all-gather uneven", one(gather), 1, false, gridAllGatherUneven},
		{"gather", one(pg.KindGather), 1, false, gridGather},
		{"scatter", one(pg.KindScatter), 1, false, gridScatter},
		{"all-to-all", one(pg.KindAllToAll), 1, false, gridAllToAll},
		{"all-to-all single", one(pg.KindAllToAll), 1, false, gridAllToAllSingle},
		{"send recv", []pg.Kind{pg.KindSend, pg.KindRecv}, 2, false, gridSendRecv},
		{"batch send recv", []pg.Kind{pg.KindSend, pg.KindRecv, pg.KindBatch}, 2, false, gridBatch},
		{"barrier", one(pg.KindBarrier), 1, false, func(ctx context.Context, g *pg.Group, _ Cell) error { return g.Barrier(ctx) }},
	}, moreVerbs()...)
}

func verbNamed(name string) (gridVerb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return gridVerb{}, false
}

// RunCell does a cell as one rank of g, a group of c.World ranks, and checks the
// result byte for byte. Every rank must call it.
func RunCell(ctx context.Context, g *pg.Group, c Cell) error {
	v, ok := verbNamed(c.Verb)
	if !ok {
		return fmt.Errorf("no verb %q", c.Verb)
	}
	if err := v.run(ctx, g, c); err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	return nil
}

// give is what a rank contributes to a slot; n elements.
func (c Cell) give(rank, slot, n int) tensor.Tensor {
	return input(c.DType, n, seedOf(c.Bytes, rank, slot))
}

// op is the op of a cell whose verb reduces.
func (c Cell) op(k pg.Kind) *pg.Op {
	op := &pg.Op{Kind: k, Reduce: c.Reduce}
	if c.Reduce == tensor.PreMulSum {
		op.Factor = gridFactor
	}
	return op
}

const gridFactor = 0.7

// sum checks that got is what all ranks gave to a slot, reduced. Inputs repeat
// after drawnElements elements, so results do, and the slow reference needs to
// fold only so many.
func (c Cell) sum(got tensor.Tensor, slot int) error {
	period := min(got.Len(), drawnElements)
	inputs := make([][]byte, c.World)
	for rank := range inputs {
		inputs[rank] = c.give(rank, slot, period).Bytes()
	}
	r := Reduction{Op: c.Reduce, Divisor: c.World, Factor: gridFactor}
	return periodic(c.DType, got.Bytes(), Reference(c.DType, r, inputs))
}

// gaveBy checks that got is what a rank gave to a slot.
func (c Cell) gaveBy(got tensor.Tensor, rank, slot int) error {
	want := c.give(rank, slot, min(got.Len(), drawnElements))
	return periodic(c.DType, got.Bytes(), want.Bytes())
}

// periodic compares got with want, again and again.
func periodic(d tensor.DType, got, want []byte) error {
	for at := 0; at < len(got); at += len(want) {
		part := got[at:min(at+len(want), len(got))]
		if bytes.Equal(part, want[:len(part)]) {
			continue
		}
		if err := same(d, part, want[:len(part)]); err != nil {
			return fmt.Errorf("from byte %d: %w", at, err)
		}
	}
	return nil
}

func (c Cell) sums(got []tensor.Tensor) error {
	for slot, t := range got {
		if err := c.sum(t, slot); err != nil {
			return fmt.Errorf("tensor %d: %w", slot, err)
		}
	}
	return nil
}

func gridAllReduce(ctx context.Context, g *pg.Group, c Cell) error {
	x := c.give(g.Rank(), 0, c.elements())
	op := c.op(pg.KindAllReduce)
	op.In, op.Out = []tensor.Tensor{x}, []tensor.Tensor{x}
	if err := g.Do(ctx, op); err != nil {
		return err
	}
	return c.sum(x, 0)
}

func gridAllReduceAsync(ctx context.Context, g *pg.Group, c Cell) error {
	x, y := c.give(g.Rank(), 0, c.elements()), tensor.New(c.DType, c.elements())
	op := c.op(pg.KindAllReduce)
	op.In, op.Out = []tensor.Tensor{x}, []tensor.Tensor{y}
	if err := g.Submit(op).Wait(ctx); err != nil {
		return err
	}
	if err := c.gaveBy(x, g.Rank(), 0); err != nil {
		return fmt.Errorf("the input has changed: %w", err)
	}
	return c.sum(y, 0)
}

func gridAllReduceCoalesced(ctx context.Context, g *pg.Group, c Cell) error {
	op := c.op(pg.KindAllReduce)
	for i, n := 0, c.elements(); i < 3; i++ {
		part := n / (3 - i)
		op.In = append(op.In, c.give(g.Rank(), i, part))
		n -= part
	}
	op.Out = op.In
	if err := g.Do(ctx, op); err != nil {
		return err
	}
	return c.sums(op.Out)
}

func gridReduce(ctx context.Context, g *pg.Group, c Cell) error {
	root := c.Bytes % c.World
	x := c.give(g.Rank(), 0, c.elements())
	op := c.op(pg.KindReduce)
	op.Root, op.In = root, []tensor.Tensor{x}
	if g.Rank() == root {
		op.Out = op.In
	}
	if err := g.Do(ctx, op); err != nil {
		return err
	}
	if g.Rank() != root {
		return c.gaveBy(x, g.Rank(), 0)
	}
	return c.sum(x, 0)
}

func gridReduceScatter(ctx context.Context, g *pg.Group, c Cell) error {
	op := c.op(pg.KindReduceScatter)
	op.In = slots(c.World, func(slot int) tensor.Tensor { return c.give(g.Rank(), slot, c.slot()) })
	op.Out = []tensor.Tensor{tensor.New(c.DType, c.slot())}
	if err := g.Do(ctx, op); err != nil {
		return err
	}
	return c.sum(op.Out[0], g.Rank())
}

// flatInput is the slots of a rank in one tensor.
func (c Cell) flatInput(rank int) tensor.Tensor {
	all := tensor.New(c.DType, c.slot()*c.World)
	for slot := range c.World {
		Fill(all.Slice(slot*c.slot(), (slot+1)*c.slot()), seedOf(c.Bytes, rank, slot))
	}
	return all
}

func gridReduceScatterTensor(ctx context.Context, g *pg.Group, c Cell) error {
	op := c.op(pg.KindReduceScatter)
	op.Flat = true
	op.In, op.Out = []tensor.Tensor{c.flatInput(g.Rank())}, []tensor.Tensor{tensor.New(c.DType, c.slot())}
	out := op.Out[0]
	if err := g.Do(ctx, op); err != nil {
		return err
	}
	return c.sum(out, g.Rank())
}

func gridReduceScatterCoalesced(ctx context.Context, g *pg.Group, c Cell) error {
	var ops []*pg.Op
	for range 2 {
		op := c.op(pg.KindReduceScatter)
		op.In = slots(c.World, func(slot int) tensor.Tensor { return c.give(g.Rank(), slot, c.slot()/2) })
		op.Out = []tensor.Tensor{tensor.New(c.DType, c.slot()/2)}
		ops = append(ops, op)
	}
	if err := g.Batch(ctx, ops); err != nil {
		return err
	}
	for _, op := range ops {
		if err := c.sum(op.Out[0], g.Rank()); err != nil {
			return err
		}
	}
	return nil
}
