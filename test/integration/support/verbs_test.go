package support

import (
	"context"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// verb is one method of pg.Group, called as each of its ranks calls it.
type verb struct {
	name string
	call func(ctx context.Context, g *pg.Group) error
}

const worldSize = 2

// f32 is a fresh tensor of n elements.
func f32(n int) tensor.Tensor { return tensor.New(tensor.Float32, n) }

func slots(n int) []tensor.Tensor {
	return []tensor.Tensor{f32(n), f32(n)}
}

// at gives ts where this rank is the root, 0.
func at(g *pg.Group, ts []tensor.Tensor) []tensor.Tensor {
	if g.Rank() == 0 {
		return ts
	}
	return nil
}

// one gives t where this rank is the root.
func one(g *pg.Group, t tensor.Tensor) tensor.Tensor {
	if g.Rank() == 0 {
		return t
	}
	return tensor.Tensor{}
}

// other is the other rank.
func other(g *pg.Group) pg.Envelope { return pg.Envelope{Peer: worldSize - 1 - g.Rank()} }

// verbs are all verbs of pg.Group that move something.
func verbs() []verb {
	return slices.Concat(collectives(), intoTensors(), madeOfOthers())
}

func collectives() []verb {
	return []verb{
		{"AllReduce", func(ctx context.Context, g *pg.Group) error { return g.AllReduce(ctx, f32(4), tensor.Sum) }},
		{"AllReduceCoalesced", func(ctx context.Context, g *pg.Group) error {
			return g.AllReduceCoalesced(ctx, slots(3), tensor.Sum)
		}},
		{"AllReducePreMulSum", func(ctx context.Context, g *pg.Group) error { return g.AllReducePreMulSum(ctx, f32(4), 2) }},
		{"Reduce", func(ctx context.Context, g *pg.Group) error { return g.Reduce(ctx, f32(4), tensor.Sum, 0) }},
		{"Broadcast", func(ctx context.Context, g *pg.Group) error { return g.Broadcast(ctx, f32(4), 0) }},
		{"AllGather", func(ctx context.Context, g *pg.Group) error { return g.AllGather(ctx, f32(4), slots(4)) }},
		{"AllGatherCoalesced", func(ctx context.Context, g *pg.Group) error {
			return g.AllGatherCoalesced(ctx, slots(2), [][]tensor.Tensor{slots(2), slots(2)})
		}},
		{"Gather", func(ctx context.Context, g *pg.Group) error { return g.Gather(ctx, f32(4), at(g, slots(4)), 0) }},
		{"Scatter", func(ctx context.Context, g *pg.Group) error { return g.Scatter(ctx, at(g, slots(4)), f32(4), 0) }},
		{"ReduceScatter", func(ctx context.Context, g *pg.Group) error {
			return g.ReduceScatter(ctx, slots(4), f32(4), tensor.Sum)
		}},
		{"ReduceScatterCoalesced", func(ctx context.Context, g *pg.Group) error {
			return g.ReduceScatterCoalesced(ctx, [][]tensor.Tensor{slots(2), slots(2)}, slots(2), tensor.Sum)
		}},
		{"AllToAll", func(ctx context.Context, g *pg.Group) error { return g.AllToAll(ctx, slots(4), slots(4)) }},
		{"Barrier", func(ctx context.Context, g *pg.Group) error { return g.Barrier(ctx) }},
		{"Send, Recv", func(ctx context.Context, g *pg.Group) error {
			if g.Rank() == 0 {
				return g.Send(ctx, f32(4), other(g))
			}
			_, err := g.Recv(ctx, f32(4), pg.Envelope{Peer: pg.AnySource})
			return err
		}},
		{"BatchSendRecv", func(ctx context.Context, g *pg.Group) error {
			return g.BatchSendRecv(ctx, []*pg.Op{pg.SendOp(f32(4), other(g)), pg.RecvOp(f32(4), other(g))})
		}},
		{"ballots", func(ctx context.Context, g *pg.Group) error {
			return g.Do(ctx, &pg.Op{Kind: pg.KindBallot, Ballot: []byte("yes")})
		}},
	}
}

func intoTensors() []verb {
	return []verb{
		{"AllGatherIntoTensor", func(ctx context.Context, g *pg.Group) error {
			return g.AllGatherIntoTensor(ctx, f32(2), f32(2*worldSize))
		}},
		{"GatherIntoTensor", func(ctx context.Context, g *pg.Group) error {
			return g.GatherIntoTensor(ctx, f32(2), one(g, f32(2*worldSize)), 0)
		}},
		{"ScatterTensor", func(ctx context.Context, g *pg.Group) error {
			return g.ScatterTensor(ctx, one(g, f32(2*worldSize)), f32(2), 0)
		}},
		{"ReduceScatterTensor", func(ctx context.Context, g *pg.Group) error {
			return g.ReduceScatterTensor(ctx, f32(2*worldSize), f32(2), tensor.Sum)
		}},
		{"AllToAllSingle", func(ctx context.Context, g *pg.Group) error {
			return g.AllToAllSingle(ctx, f32(4), f32(4), pg.Splits{})
		}},
	}
}

func madeOfOthers() []verb {
	return []verb{
		{"AllGatherUneven", func(ctx context.Context, g *pg.Group) error {
			_, err := dist.AllGatherUneven(ctx, g, f32(1+g.Rank()))
			return err
		}},
		{"object.Broadcast", func(ctx context.Context, g *pg.Group) error {
			return object.Broadcast(ctx, g, []any{"foo", 12}, 0)
		}},
		{"object.AllGather", func(ctx context.Context, g *pg.Group) error {
			_, err := object.AllGather(ctx, g, g.Rank())
			return err
		}},
		{"object.Gather", func(ctx context.Context, g *pg.Group) error {
			_, err := object.Gather(ctx, g, g.Rank(), 0)
			return err
		}},
		{"object.Scatter", func(ctx context.Context, g *pg.Group) error {
			_, err := object.Scatter(ctx, g, []any{"foo", 12}, 0)
			return err
		}},
		{"MonitoredBarrier", func(ctx context.Context, g *pg.Group) error {
			return dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{})
		}},
		{"AllReduceMulti", func(ctx context.Context, g *pg.Group) error { return dist.AllReduceMulti(ctx, g, slots(2), tensor.Sum) }},
		{"BroadcastMulti", func(ctx context.Context, g *pg.Group) error {
			return dist.BroadcastMulti(ctx, g, slots(2), dist.RootTensor{})
		}},
		{"ReduceMulti", func(ctx context.Context, g *pg.Group) error {
			return dist.ReduceMulti(ctx, g, slots(2), tensor.Sum, dist.RootTensor{})
		}},
		{"AllGatherMulti", func(ctx context.Context, g *pg.Group) error {
			return dist.AllGatherMulti(ctx, g, slots(2), [][]tensor.Tensor{slices.Concat(slots(2), slots(2)), slices.Concat(slots(2), slots(2))})
		}},
		{"ReduceScatterMulti", func(ctx context.Context, g *pg.Group) error {
			return dist.ReduceScatterMulti(ctx, g,
				[][]tensor.Tensor{slices.Concat(slots(2), slots(2)), slices.Concat(slots(2), slots(2))}, slots(2), tensor.Sum)
		}},
		{"NewGroup", func(ctx context.Context, g *pg.Group) error {
			sub, err := g.NewGroup(ctx, nil, pg.GroupOptions{})
			if err != nil {
				return err
			}
			return sub.Destroy()
		}},
	}
}

// moves runs a kind that only moves elements, with any dtype.
func moves(ctx context.Context, g *pg.Group, k pg.Kind, d tensor.DType) error {
	t := func() tensor.Tensor { return tensor.New(d, 4) }
	two := func() []tensor.Tensor { return []tensor.Tensor{t(), t()} }
	switch k {
	case pg.KindBroadcast:
		return g.Broadcast(ctx, t(), 0)
	case pg.KindAllGather:
		return g.AllGather(ctx, t(), two())
	case pg.KindGather:
		return g.Gather(ctx, t(), at(g, two()), 0)
	case pg.KindScatter:
		return g.Scatter(ctx, at(g, two()), t(), 0)
	case pg.KindAllToAll:
		return g.AllToAll(ctx, two(), two())
	case pg.KindSend:
		return g.BatchSendRecv(ctx, []*pg.Op{pg.SendOp(t(), other(g)), pg.RecvOp(t(), other(g))})
	}
	return fmt.Errorf("%v moves nothing", k)
}

// reduces runs a kind that reduces.
func reduces(ctx context.Context, g *pg.Group, k pg.Kind, d tensor.DType, o tensor.ReduceOp) error {
	in := []tensor.Tensor{tensor.New(d, 4)}
	op := &pg.Op{Kind: k, In: in, Out: in, Reduce: o, Factor: 2}
	switch k {
	case pg.KindReduce:
		op.Out = at(g, in)
	case pg.KindReduceScatter:
		op.In, op.Out = []tensor.Tensor{tensor.New(d, 4), tensor.New(d, 4)}, []tensor.Tensor{tensor.New(d, 4)}
	}
	return g.Do(ctx, op)
}
