package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/tensor"
)

// streams has an op between work of the caller's stream, in this process and in
// a Baby: the copy to the device before it, and the copy to the host behind it,
// are put in order by the device alone. The host waits once, at the end.
func (r *rank) streams(ctx context.Context) error {
	var s nccl.Stream
	err := r.dev.Do(func() (err error) {
		s, err = r.cuda.NewStream(false)
		return err
	})
	if err != nil {
		return err
	}
	b, err := nccl.New(nccl.Options{Library: r.lib, Device: r.dev, UserStream: func() nccl.Stream { return s }, HighPriority: true})
	if err != nil {
		return err
	}
	g := pg.NewGroup(b)
	err = r.between(ctx, g, s, func(*pg.Work) error { return b.WaitStream(ctx, s) })
	if err = errors.Join(err, r.leave(g)); err != nil {
		return fmt.Errorf("in this process: %w", err)
	}
	if err := r.streamsOfBaby(ctx, s); err != nil {
		return fmt.Errorf("in a child: %w", err)
	}
	return r.dev.Do(func() error { return r.cuda.DestroyStream(s) })
}

func (r *rank) streamsOfBaby(ctx context.Context, s nccl.Stream) error {
	order, err := nccl.NewOrder(nccl.OrderOptions{Devices: []*nccl.Device{r.dev}, UserStream: func(int) nccl.Stream { return s }})
	if err != nil {
		return err
	}
	b, err := baby.New(r.babyOptions(order))
	if err != nil {
		return err
	}
	g := pg.NewGroup(b)
	err = r.between(ctx, g, s, func(w *pg.Work) error { return r.dev.Follow(ctx, s, w) })
	return errors.Join(err, r.leave(g), order.Close())
}

// babyOptions are those of a child with NCCL on this rank's device.
func (r *rank) babyOptions(order baby.Order) baby.Options {
	return baby.Options{
		Backend: nccl.Name, Spare: true, Order: order,
		Open: pg.Options{Params: map[string]string{
			"nccl.library": r.Libraries.NCCL, "nccl.cuda": r.Libraries.CUDA, "nccl.device": fmt.Sprint(r.dev.Index()),
		}},
	}
}

// rounds of a streams scenario, and how much they move.
func (r *rank) rounds() (rounds, elements int) {
	if r.Full {
		return 50, 16 << 20
	}
	return 5, 1 << 18
}

// between runs a few all-reduces between copies of s. Wait puts what follows in s
// behind the op.
func (r *rank) between(ctx context.Context, g *pg.Group, s nccl.Stream, wait func(*pg.Work) error) error {
	if err := r.configure(ctx, g); err != nil {
		return err
	}
	rounds, n := r.rounds()
	x, buf, err := r.tensor(tensor.Int32, n)
	if err != nil {
		return err
	}
	r.held = append(r.held, buf)
	var in, out []byte // page-locked, so that copies do not wait
	err = r.dev.Do(func() (err error) {
		if in, err = r.cuda.AllocHost(int64(4 * n)); err != nil {
			return err
		}
		out, err = r.cuda.AllocHost(int64(4 * n))
		return err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	for round := range rounds {
		values := slices.Repeat([]int32{int32(round + r.Rank)}, n)
		copy(in, tensor.Of(values).Bytes())
		clear(out)
		if err := r.between1(ctx, g, s, x, in, out, wait); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		want := int32(r.WorldSize*round + r.WorldSize*(r.WorldSize-1)/2)
		got := tensor.New(tensor.Int32, n)
		copy(got.Bytes(), out)
		if i := slices.IndexFunc(tensor.Slice[int32](got), func(v int32) bool { return v != want }); i >= 0 {
			return fmt.Errorf("round %d: element %d is %d, want %d: out of order", round, i, tensor.Slice[int32](got)[i], want)
		}
	}
	r.say(record{What: "streams", Count: rounds, Bytes: int64(4 * n), Seconds: time.Since(began).Seconds()})
	return r.dev.Do(func() error { return errors.Join(r.cuda.FreeHost(in), r.cuda.FreeHost(out)) })
}

// between1 is one round: nothing before its last line waits for the device.
func (r *rank) between1(ctx context.Context, g *pg.Group, s nccl.Stream, x tensor.Tensor, in, out []byte, wait func(*pg.Work) error) error {
	mem, _ := x.Memory()
	p := nccl.Pointer(mem.Address())
	if err := r.dev.Do(func() error { return r.cuda.CopyIn(p, in, s) }); err != nil {
		return err
	}
	w := g.AllReduceAsync(x, tensor.Sum)
	if err := wait(w); err != nil {
		return err
	}
	err := r.dev.Do(func() (err error) {
		if err := r.cuda.CopyOut(out, p, s); err != nil {
			return err
		}
		e, err := r.cuda.Record(s)
		if err != nil {
			return err
		}
		return errors.Join(r.cuda.Synchronize(e, r.opTimeout()), r.cuda.DestroyEvent(e))
	})
	return errors.Join(err, w.Wait(ctx))
}

// Ops are in order with the caller's streams, in this process and in a Baby.
func TestStreams(t *testing.T) {
	const title = "in order with the caller's streams, without the host"
	results.follow(t, title)
	o := start(t, "streams")
	o.succeed(t)
	if len(o.records) != 2**ranks {
		t.Fatalf("%d records, want two of each of %d ranks", len(o.records), *ranks)
	}
	text := fmt.Sprintf("%d rounds of %d bytes, in %.0f ms; in a Baby, in %.0f ms",
		o.records[0].Count, o.records[0].Bytes, 1000*o.records[0].Seconds, 1000*o.records[1].Seconds)
	t.Log(text)
	results.passed(title, text)
}
