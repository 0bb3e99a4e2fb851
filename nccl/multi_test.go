package nccl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// newMulti is a group over devices, which are closed with the test.
func newMulti(t *testing.T, f *fakes, o Options, indices ...int) *Multi {
	t.Helper()
	o.Library = f.lib
	m := MultiOptions{Options: o}
	for _, i := range indices {
		m.Devices = append(m.Devices, f.device(t, i))
	}
	b, err := NewMulti(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pairOf is a world of two ranks with two devices each.
func pairOf(t *testing.T, f *fakes, o Options) *pgtest.World {
	t.Helper()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("a", newMulti(t, f, o, 0, 1)), w.Join("b", newMulti(t, f, o, 2, 3)))
	return w
}

func (m *Multi) device(i int) *Device { return m.opt.Devices[i] }

// Tensors on several devices are reduced, broadcast and sent together, each on its
// own; ops on one device, and subgroups, work as with one.
func TestMulti(t *testing.T) {
	f := open(t)
	w := pairOf(t, f, Options{HighPriority: true})
	before := f.joint()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := w.Members[rank].Backend.(*Multi)
		x := onDeviceOf(t, m.device(0), tensor.Of([]int32{int32(1 + rank)}))
		y := onDeviceOf(t, m.device(1), tensor.Of([]int32{int32(10 + rank), 7}))
		both := []tensor.Tensor{x, y}
		if err := g.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: both, Out: both}); err != nil {
			return err
		}
		if a, b := tensor.Slice[int32](onHost(t, x)), tensor.Slice[int32](onHost(t, y)); a[0] != 3 || b[0] != 21 || b[1] != 14 {
			return fmt.Errorf("sums are %v and %v, want 3 and 21 14", a, b)
		}
		if err := errors.Join(g.AllReduce(ctx, y, tensor.Sum), g.AllReduce(ctx, x, tensor.Max)); err != nil {
			return err
		}
		fromX, fromY := onDeviceOf(t, m.device(0), tensor.Of([]int32{0})), onDeviceOf(t, m.device(1), tensor.Of([]int32{0, 0}))
		peer := 1 - rank
		// What goes out on a device arrives on the same lane.
		batch := &pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{
			{Kind: pg.KindSend, Peer: peer, In: []tensor.Tensor{x}}, {Kind: pg.KindRecv, Peer: peer, Out: []tensor.Tensor{fromX}},
			{Kind: pg.KindSend, Peer: peer, In: []tensor.Tensor{y}}, {Kind: pg.KindRecv, Peer: peer, Out: []tensor.Tensor{fromY}},
		}}
		if err := g.Do(ctx, batch); err != nil {
			return err
		}
		if a, b := tensor.Slice[int32](onHost(t, fromX)), tensor.Slice[int32](onHost(t, fromY)); a[0] != 3 || b[0] != 42 || b[1] != 28 {
			return fmt.Errorf("received %v and %v, want 3 and 42 28", a, b)
		}
		ids := []int{m.device(1).Index(), m.device(0).Index()}
		if err := errors.Join(g.Barrier(ctx), g.BarrierOn(ctx, pg.BarrierOptions{DeviceIDs: ids})); err != nil {
			return err
		}
		return m.WaitStream(ctx, m.device(1).Index(), 0)
	})
	// Two ranks: an all-reduce, a batch and a barrier over both devices each.
	if got := f.joint() - before; got != 6 {
		t.Errorf("%d groups of calls over two devices, want 6", got)
	}
}

// With HighPriority each lane has a stream of the greatest priority, without none.
func TestHighPriority(t *testing.T) {
	f := open(t)
	for high, want := range map[bool]int64{false: 0, true: 2} {
		before := f.high()
		w := pgtest.NewWorld(t, pgtest.StartStore(t))
		w.Configure(w.Join("solo", newMulti(t, f, Options{HighPriority: high}, 0, 1)))
		if got := f.high() - before; got != want {
			t.Errorf("HighPriority %v: %d streams of the greatest priority, want %d", high, got, want)
		}
	}
}

// A tensor on a device that is none of the group's, or an op from one device to
// another, is refused with both named, and breaks nothing.
func TestMultiWrongDevice(t *testing.T) {
	f := open(t)
	w := pairOf(t, f, Options{})
	g, m := w.Groups[0], w.Members[0].Backend.(*Multi)
	x, y := onDeviceOf(t, m.device(0), tensor.Of([]int32{1})), onDeviceOf(t, m.device(1), tensor.Of([]int32{1}))
	foreign := onDeviceOf(t, f.device(t, 3), tensor.Of([]int32{1}))
	for name, c := range map[string]struct {
		op   *pg.Op
		says []string
	}{
		"foreign":      {&pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{foreign}, Out: []tensor.Tensor{foreign}}, []string{"cuda:3", "cuda:0", "cuda:1"}},
		"across":       {&pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{y}}, []string{"cuda:0", "cuda:1"}},
		"gather":       {&pg.Op{Kind: pg.KindAllGather, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x, y}}, []string{"cuda:0", "cuda:1"}},
		"barrier":      {&pg.Op{Kind: pg.KindBarrier, DeviceIDs: []int{2}}, []string{"cuda:2", "cuda:0"}},
		"host":         {&pg.Op{Kind: pg.KindBroadcast, In: []tensor.Tensor{tensor.New(tensor.Int32, 1)}, Out: []tensor.Tensor{tensor.New(tensor.Int32, 1)}}, []string{"cpu", "cuda:0"}},
		"batch across": {&pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{{Kind: pg.KindSend, Peer: 1, In: []tensor.Tensor{foreign}}}}, []string{"cuda:3", "cuda:0"}},
	} {
		err := g.Do(t.Context(), c.op)
		if !errors.Is(err, pg.ErrInvalidOp) {
			t.Errorf("%s: %v, want ErrInvalidOp", name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s named", name, err, want)
			}
		}
	}
	if err := g.Err(); err != nil {
		t.Errorf("the group is broken: %v", err)
	}
	one := newBackend(t, f, 2)
	w2 := pgtest.NewWorld(t, pgtest.StartStore(t))
	w2.Configure(w2.Join("solo", one))
	if err := w2.Groups[0].BarrierOn(t.Context(), pg.BarrierOptions{DeviceIDs: []int{1}}); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("barrier on another device: %v, want ErrInvalidOp", err)
	}
}

// A hang on one device breaks the group on all, and it can be configured anew.
func TestMultiBreaks(t *testing.T) {
	f := open(t)
	w := pairOf(t, f, Options{AbortLimit: pgtest.PromptBound})
	m := w.Members[0].Backend.(*Multi)
	x, y := onDeviceOf(t, m.device(0), tensor.Of([]int32{1})), onDeviceOf(t, m.device(1), tensor.Of([]int32{1}))
	both := []tensor.Tensor{x, y}
	joint := w.Groups[0].Submit(&pg.Op{Kind: pg.KindAllReduce, In: both, Out: both}) // the other rank does not come
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	w.Groups[0].Abort(errors.New("enough"))
	if err := joint.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the op over both devices: %v, want an error", err)
	}
	for i, lane := range m.lanes {
		if lane.Err() == nil {
			t.Errorf("lane %d is not broken", i)
		}
	}
	testkit.Eventually(t, "the other rank's group is broken", func() bool { return w.Groups[1].Err() != nil })
	w.Configure(w.Members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := w.Members[rank].Backend.(*Multi)
		return g.AllReduce(ctx, onDeviceOf(t, m.device(1), tensor.Of([]int32{1})), tensor.Sum)
	})
}

// The worlds of one device's suite hold on several, too.
func TestMultiConformance(t *testing.T) {
	if !*everything {
		t.Skip("it is that of one device: see -nccl.all")
	}
	f := open(t)
	h := harness(func(t *testing.T) pg.Backend {
		m := newMulti(t, f, Options{AbortLimit: pgtest.PromptBound}, 1, 2)
		return hostside{m, m.device(0)}
	})
	for _, name := range []string{"Reduce", "Broadcast", "Gather", "Scatter", "AllToAll", "Token"} {
		h.Except[name] = "as with one device"
	}
	pgtest.RunWith(t, h)
}

// Subgroups of a group over several devices, and of one that serves host tensors
// besides, are split, too.
func TestMultiSplit(t *testing.T) {
	f := open(t)
	before := f.splits()
	w := pairOf(t, f, Options{})
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := w.Members[rank].Backend.(*Multi)
		for _, ranks := range [][]int{{0, 1}, {1}} {
			sub, err := g.NewGroup(ctx, ranks, pg.GroupOptions{})
			if err != nil {
				return err
			}
			if sub.Rank() < 0 {
				continue
			}
			x, y := onDeviceOf(t, m.device(0), tensor.Of([]int32{1})), onDeviceOf(t, m.device(1), tensor.Of([]int32{10}))
			both := []tensor.Tensor{x, y}
			if err := sub.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: both, Out: both}); err != nil {
				return err
			}
			n := int32(len(ranks))
			if a, b := tensor.Slice[int32](onHost(t, x))[0], tensor.Slice[int32](onHost(t, y))[0]; a != n || b != 10*n {
				return fmt.Errorf("sums of %v are %d and %d, want %d and %d", ranks, a, b, n, 10*n)
			}
		}
		return nil
	})
	// Two subgroups, two ranks, two lanes.
	if got := f.splits() - before; got != 8 {
		t.Errorf("%d calls of ncclCommSplit, want 8", got)
	}
}

// A child serves several devices, in order with the streams of all of them.
func TestMultiBaby(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, second := f.device(t, 0), f.device(t, 1)
	s, hold := standing(t, second)
	order, err := NewOrder(OrderOptions{Devices: []*Device{first, second}, UserStream: func(device int) Stream {
		return []Stream{0, s}[device]
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := baby.New(baby.Options{Backend: Name, Order: order, Silence: pgtest.Bound, Open: pg.Options{Params: map[string]string{
		"nccl.library": f.nccl, "nccl.cuda": f.cuda, "nccl.device": "0,1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), order.Close()); err != nil {
			t.Error(err)
		}
	})
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	g := w.Groups[0]
	x, y := onDeviceOf(t, first, tensor.Of([]float32{1})), onDeviceOf(t, second, tensor.Of([]float32{2}))
	both := []tensor.Tensor{x, y}
	work := g.Submit(&pg.Op{Kind: pg.KindAllReduce, In: both, Out: both, Reduce: tensor.PreMulSum, Factor: 2})
	if b.Active() != 1 || work.Finished() {
		t.Fatalf("the op did not wait for the stream of its second device: %v", work.Err())
	}
	hold.Complete(nil)
	if err := work.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := tensor.Slice[float32](onHost(t, x))[0], tensor.Slice[float32](onHost(t, y))[0]; a != 2 || b != 4 {
		t.Errorf("results are %v and %v, want 2 and 4", a, b)
	}
	if err := g.BarrierOn(t.Context(), pg.BarrierOptions{DeviceIDs: []int{1, 0}}); err != nil {
		t.Error(err)
	}
	if err := g.BarrierOn(t.Context(), pg.BarrierOptions{DeviceIDs: []int{3}}); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("barrier on a device that is none of the group's: %v, want ErrInvalidOp", err)
	}
}
