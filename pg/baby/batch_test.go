package baby

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// inBatches is a backend as NCCL is: messages that are to cross must come in
// one batch.
const inBatches = "only-batches"

// onlyBatches refuses messages that come by themselves.
type onlyBatches struct{ pg.Backend }

func (b onlyBatches) Submit(op *pg.Op) *pg.Work {
	if op.Kind.PointToPoint() {
		return pg.Finished(op, fmt.Errorf("%w: %v outside a batch", pg.ErrUnsupported, op.Kind))
	}
	return b.Backend.Submit(op)
}

// A batch reaches the child's backend as one, whose messages cross; its tensors
// may be anywhere, and each op gets its own results.
func TestBatchStaysWhole(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var backends [2]*Backend
	var members []pgtest.Member
	for r := range backends {
		backends[r] = newBaby(t, Options{Backend: inBatches})
		members = append(members, w.Join(fmt.Sprint("r", r), backends[r]))
	}
	w.Configure(members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		peer := 1 - rank
		shared, err := backends[rank].Alloc(tensor.Int32, 2)
		if err != nil {
			return err
		}
		defer backends[rank].Free(shared)
		for i := range 3 {
			out := []int32{int32(100*rank + i)}
			foreign := tensor.Of([]int32{-1})
			ops := []*pg.Op{
				pg.SendOp(tensor.Of(out), pg.Envelope{Peer: peer, Tag: 1}),
				pg.SendOp(tensor.Of(out), pg.Envelope{Peer: peer, Tag: 2}), // the same memory twice is only read
				pg.RecvOp(foreign, pg.Envelope{Peer: peer, Tag: 1}),
				pg.RecvOp(shared.Slice(0, 1), pg.Envelope{Peer: peer, Tag: 2}),
			}
			if err := g.Batch(ctx, ops); err != nil {
				return err
			}
			want := int32(100*peer + i)
			if x, y := tensor.Slice[int32](foreign)[0], tensor.Slice[int32](shared)[0]; x != want || y != want {
				return fmt.Errorf("round %d: got %d and %d, want %d", i, x, y, want)
			}
			if ops[2].Source != peer || ops[3].Source != peer || ops[3].Epoch.QuorumID == 0 {
				return fmt.Errorf("sources %d and %d, epoch %v", ops[2].Source, ops[3].Source, ops[3].Epoch)
			}
		}
		if err := g.Send(ctx, tensor.Of([]int32{1}), pg.Envelope{Peer: peer}); !errors.Is(err, pg.ErrUnsupported) {
			return fmt.Errorf("a send by itself: %w", err)
		}
		return nil
	})
}

// TestApart: only what is written must not be anybody else's.
func TestApart(t *testing.T) {
	t.Parallel()
	x := tensor.Of(make([]int32, 8))
	a, b, wide := x.Slice(0, 2), x.Slice(2, 4), x.Slice(1, 8)
	send := func(t tensor.Tensor) *pg.Op { return pg.SendOp(t, pg.Envelope{}) }
	recv := func(t tensor.Tensor) *pg.Op { return pg.RecvOp(t, pg.Envelope{}) }
	for i, c := range []struct {
		ops  []*pg.Op
		want bool
	}{
		{[]*pg.Op{send(a), send(a), send(wide)}, true},
		{[]*pg.Op{send(a), recv(b)}, true},
		{[]*pg.Op{recv(b), send(a), recv(x.Slice(4, 8))}, true},
		{[]*pg.Op{send(a), recv(a)}, false},
		{[]*pg.Op{send(wide), recv(b)}, false},
		{[]*pg.Op{recv(wide), send(a)}, false},
		{[]*pg.Op{recv(wide), recv(b)}, false},
		{[]*pg.Op{{Kind: pg.KindBarrier}, recv(x.Slice(0, 0)), recv(a)}, true},
	} {
		if got := apart(&pg.Op{Kind: pg.KindBatch, Batch: c.ops}); got != c.want {
			t.Errorf("batch %d: apart %v, want %v", i, got, c.want)
		}
	}
}
