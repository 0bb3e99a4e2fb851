package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// poisonByte is what tensors are filled with once they are the caller's again.
const poisonByte = 0xA5

// testPoison: from the moment an op is done, with an error too, its tensors are
// the caller's: nothing of that epoch, or of the next, is ever written to them.
// Ops of every kind are cut off by an abort, or by the death of a link; each
// tensor is poisoned as soon as its op is done; then the next epoch moves other
// bytes through the same links, and the poison must be as it was.
func testPoison(t *testing.T, h Harness) {
	const worldSize, epochs = 3, 4
	w := NewWorld(t, h.storeAddress(t))
	members := make([]Member, worldSize)
	for i := range members {
		members[i] = w.Join(fmt.Sprintf("replica-%d", i), h.New(t))
	}
	pattern := bytes.Repeat([]byte{poisonByte}, 1<<20)
	for epoch := range epochs {
		var poisoned [][]byte
		w.Configure(members...)
		works(w)
		var mu sync.Mutex
		poison := func(op *pg.Op) {
			for _, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
				for _, x := range tensors {
					b := x.Bytes()
					copy(b, pattern)
					mu.Lock()
					poisoned = append(poisoned, b)
					mu.Unlock()
				}
			}
		}
		within(t, Bound, "epoch that is cut off", func() {
			var ranks sync.WaitGroup
			for rank, g := range w.Groups {
				ranks.Go(func() { cutOff(g, rank, epoch, poison) })
			}
			ranks.Wait()
		})
		w.Configure(members...)
		refill(w)
		for i, b := range poisoned {
			if !bytes.Equal(b, pattern[:len(b)]) {
				t.Fatalf("epoch %d: %d bytes of tensor %d were written after its op was done",
					epoch, len(b)-bytes.Count(b, pattern[:1]), i)
			}
		}
	}
}

// cutOff starts ops on rank, aborts somewhere in between if it is its turn, and
// poisons the tensors of each as it ends.
func cutOff(g *pg.Group, rank, epoch int, poison func(*pg.Op)) {
	const big = 150_000
	f32 := func(n int) []tensor.Tensor { return []tensor.Tensor{input(tensor.Float32, n, seedOf(epoch, rank, n))} }
	wide := func(n int) []tensor.Tensor { return append(append(f32(n), f32(n)...), f32(n)...) }
	ops := []*pg.Op{
		{Kind: pg.KindRecv, Out: f32(big), Peer: (rank + 1) % 3, Tag: 9}, // nobody sends
		{Kind: pg.KindSend, In: f32(big), Peer: (rank + 1) % 3, Tag: 8},
		{Kind: pg.KindRecv, Out: f32(big), Peer: (rank + 2) % 3, Tag: 8},
		{Kind: pg.KindAllReduce, In: f32(big), Out: f32(big)},
		{Kind: pg.KindAllGather, In: f32(big / 3), Out: wide(big / 3)},
		{Kind: pg.KindReduceScatter, In: wide(big / 3), Out: f32(big / 3)},
		{Kind: pg.KindAllToAll, In: wide(1000), Out: wide(1000)},
		{Kind: pg.KindAllReduce, In: f32(7), Out: f32(7)},
	}
	var done sync.WaitGroup
	for _, op := range ops {
		done.Add(1)
		g.Submit(op).Then(func(error) {
			// Then runs before the waiters wake, when the tensors are free already.
			poison(op)
			done.Done()
		})
	}
	if rank == epoch%3 {
		timer := time.NewTimer(time.Duration(epoch*epoch) * 100 * time.Microsecond)
		<-timer.C
		g.Abort(errors.New("cut off"))
	}
	done.Wait()
}

// refill moves new bytes through every link.
func refill(w *World) {
	w.t.Helper()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		n := len(w.Groups)
		x := input(tensor.Float32, 150_000, seedOf(1, rank, 1))
		return errors.Join(g.AllReduce(ctx, x, tensor.Sum),
			g.BatchSendRecv(ctx, []*pg.Op{
				pg.SendOp(tensor.New(tensor.Float32, 70_000), pg.Envelope{Peer: (rank + 1) % n, Tag: 8}),
				pg.RecvOp(tensor.New(tensor.Float32, 70_000), pg.Envelope{Peer: (rank + n - 1) % n, Tag: 8}),
			}))
	})
}
