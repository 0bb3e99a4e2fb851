package pg

import (
	"context"

	"github.com/skerry-ft/skerry/tensor"
)

// take prepares a pooled call for a blocking verb.
func (g *Group) take(op Op) *call {
	c := g.calls.Get().(*call)
	c.prepare(op)
	return c
}

// start prepares a call for an async verb and submits it: one allocation.
func (g *Group) start(op Op, in, out tensor.Tensor) *Work {
	c := new(call)
	c.prepare(op)
	c.single(in, out)
	return g.submit(&c.op)
}

// AllReduce reduces t element by element over all ranks, in place.
//
// Every rank must call it with the same dtype, length and reduce op. The result
// is the same, bit for bit, on every rank: a left fold in rank order. Avg
// divides by the number of ranks.
func (g *Group) AllReduce(ctx context.Context, t tensor.Tensor, op tensor.ReduceOp) error {
	return g.run(ctx, Op{Kind: KindAllReduce, Reduce: op}, t, t)
}

// AllReduceAsync starts AllReduce.
func (g *Group) AllReduceAsync(t tensor.Tensor, op tensor.ReduceOp) *Work {
	return g.start(Op{Kind: KindAllReduce, Reduce: op}, t, t)
}

// AllReduceCoalesced reduces several tensors of one dtype, in place, as one op.
// The group keeps ts until it returns.
func (g *Group) AllReduceCoalesced(ctx context.Context, ts []tensor.Tensor, op tensor.ReduceOp) error {
	return g.run(ctx, Op{Kind: KindAllReduce, Reduce: op, In: ts, Out: ts}, tensor.Tensor{}, tensor.Tensor{})
}

// AllReduceCoalescedAsync starts AllReduceCoalesced.
func (g *Group) AllReduceCoalescedAsync(ts []tensor.Tensor, op tensor.ReduceOp) *Work {
	return g.start(Op{Kind: KindAllReduce, Reduce: op, In: ts, Out: ts}, tensor.Tensor{}, tensor.Tensor{})
}

// Reduce is AllReduce whose result goes to root only; t of other ranks stays.
func (g *Group) Reduce(ctx context.Context, t tensor.Tensor, op tensor.ReduceOp, root int) error {
	return g.run(ctx, Op{Kind: KindReduce, Reduce: op, Root: root}, t, g.atRoot(t, root))
}

// ReduceAsync starts Reduce.
func (g *Group) ReduceAsync(t tensor.Tensor, op tensor.ReduceOp, root int) *Work {
	return g.start(Op{Kind: KindReduce, Reduce: op, Root: root}, t, g.atRoot(t, root))
}

// Broadcast copies t of root into t of every other rank.
func (g *Group) Broadcast(ctx context.Context, t tensor.Tensor, root int) error {
	return g.run(ctx, Op{Kind: KindBroadcast, Root: root}, t, t)
}

// BroadcastAsync starts Broadcast.
func (g *Group) BroadcastAsync(t tensor.Tensor, root int) *Work {
	return g.start(Op{Kind: KindBroadcast, Root: root}, t, t)
}

// AllGather copies in of rank r into out[r] everywhere. Len(out) is Size; in
// may be out[Rank()].
func (g *Group) AllGather(ctx context.Context, in tensor.Tensor, out []tensor.Tensor) error {
	return g.run(ctx, Op{Kind: KindAllGather, Out: out}, in, tensor.Tensor{})
}

// AllGatherAsync starts AllGather.
func (g *Group) AllGatherAsync(in tensor.Tensor, out []tensor.Tensor) *Work {
	return g.start(Op{Kind: KindAllGather, Out: out}, in, tensor.Tensor{})
}

// Gather copies in of rank r into out[r] at root. Other ranks give no out.
func (g *Group) Gather(ctx context.Context, in tensor.Tensor, out []tensor.Tensor, root int) error {
	return g.run(ctx, Op{Kind: KindGather, Out: out, Root: root}, in, tensor.Tensor{})
}

// GatherAsync starts Gather.
func (g *Group) GatherAsync(in tensor.Tensor, out []tensor.Tensor, root int) *Work {
	return g.start(Op{Kind: KindGather, Out: out, Root: root}, in, tensor.Tensor{})
}

// Scatter copies in[r] of root into out of rank r. Other ranks give no in.
func (g *Group) Scatter(ctx context.Context, in []tensor.Tensor, out tensor.Tensor, root int) error {
	return g.run(ctx, Op{Kind: KindScatter, In: in, Root: root}, tensor.Tensor{}, out)
}

// ScatterAsync starts Scatter.
func (g *Group) ScatterAsync(in []tensor.Tensor, out tensor.Tensor, root int) *Work {
	return g.start(Op{Kind: KindScatter, In: in, Root: root}, tensor.Tensor{}, out)
}

// ReduceScatter reduces in[r] over all ranks into out of rank r. Len(in) is
// Size; out may be in[Rank()].
func (g *Group) ReduceScatter(ctx context.Context, in []tensor.Tensor, out tensor.Tensor, op tensor.ReduceOp) error {
	return g.run(ctx, Op{Kind: KindReduceScatter, Reduce: op, In: in}, tensor.Tensor{}, out)
}

// ReduceScatterAsync starts ReduceScatter.
func (g *Group) ReduceScatterAsync(in []tensor.Tensor, out tensor.Tensor, op tensor.ReduceOp) *Work {
	return g.start(Op{Kind: KindReduceScatter, Reduce: op, In: in}, tensor.Tensor{}, out)
}

// AllToAll copies in[r] of rank s into out[s] of rank r. Len is Size for both;
// in and out share no memory.
func (g *Group) AllToAll(ctx context.Context, in, out []tensor.Tensor) error {
	return g.run(ctx, Op{Kind: KindAllToAll, In: in, Out: out}, tensor.Tensor{}, tensor.Tensor{})
}

// AllToAllAsync starts AllToAll.
func (g *Group) AllToAllAsync(in, out []tensor.Tensor) *Work {
	return g.start(Op{Kind: KindAllToAll, In: in, Out: out}, tensor.Tensor{}, tensor.Tensor{})
}

// Barrier returns once every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	return g.run(ctx, Op{Kind: KindBarrier}, tensor.Tensor{}, tensor.Tensor{})
}

// BarrierAsync starts Barrier.
func (g *Group) BarrierAsync() *Work {
	return g.start(Op{Kind: KindBarrier}, tensor.Tensor{}, tensor.Tensor{})
}

// BarrierOptions are what a barrier can be told.
type BarrierOptions struct {
	// DeviceIDs are the devices on which a backend for devices meets the other
	// ranks, as torch's device_ids; empty means its first. Other backends take
	// no notice.
	DeviceIDs []int
}

// BarrierOn is Barrier with options, which are the same on all ranks.
func (g *Group) BarrierOn(ctx context.Context, o BarrierOptions) error {
	return g.run(ctx, Op{Kind: KindBarrier, DeviceIDs: o.DeviceIDs}, tensor.Tensor{}, tensor.Tensor{})
}

// Envelope addresses a point-to-point message: the other rank, and a tag that
// keeps streams of messages apart. Messages of one sender and tag arrive in
// the order of the calls.
type Envelope struct {
	Peer int // AnySource in a receive: whoever sends first
	Tag  int
}

// Send sends t to e.Peer. It returns once t may be changed again, which need
// not mean that the peer has it.
func (g *Group) Send(ctx context.Context, t tensor.Tensor, e Envelope) error {
	return g.run(ctx, Op{Kind: KindSend, Peer: e.Peer, Tag: e.Tag}, t, tensor.Tensor{})
}

// SendAsync starts Send.
func (g *Group) SendAsync(t tensor.Tensor, e Envelope) *Work {
	return g.start(Op{Kind: KindSend, Peer: e.Peer, Tag: e.Tag}, t, tensor.Tensor{})
}

// Recv fills t with the next message from e.Peer under e.Tag, which must have
// t's dtype and length, and returns the rank of the sender.
func (g *Group) Recv(ctx context.Context, t tensor.Tensor, e Envelope) (from int, err error) {
	c := g.take(Op{Kind: KindRecv, Peer: e.Peer, Tag: e.Tag})
	c.single(tensor.Tensor{}, t)
	defer c.release(heldByCaller)
	if err := g.wait(ctx, c); err != nil {
		return e.Peer, err
	}
	return c.op.Source, nil
}

// RecvAsync starts Recv; Work.Op().Source is the sender.
func (g *Group) RecvAsync(t tensor.Tensor, e Envelope) *Work {
	return g.start(Op{Kind: KindRecv, Peer: e.Peer, Tag: e.Tag}, tensor.Tensor{}, t)
}

// atRoot is t at root, and no tensor elsewhere. Under Managed the rank follows from the
// roster when the op runs; Managed then takes t away where it is not the root.
func (g *Group) atRoot(t tensor.Tensor, root int) tensor.Tensor {
	if g.Resizable() {
		return t
	}
	if c, ok := g.Config(); ok && c.Rank != root {
		return tensor.Tensor{}
	}
	return t
}
