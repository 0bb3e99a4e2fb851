package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// deviceAlone is a backend for a device that is not there: it takes tensors in fakeMemory
// and refuses those of the host, as NCCL's does.
type deviceAlone struct{ pg.Backend }

func (d deviceAlone) Submit(op *pg.Op) *pg.Work {
	below := *op
	below.In, below.Out = nil, nil
	for side, ts := range [2][]tensor.Tensor{op.In, op.Out} {
		for _, x := range ts {
			host, err := inFake(x)
			if err != nil {
				return pg.Finished(op, err)
			}
			if side == 0 {
				below.In = append(below.In, host)
			} else {
				below.Out = append(below.Out, host)
			}
		}
	}
	work := pg.NewWork(op)
	d.Backend.Submit(&below).Then(work.Complete)
	return work
}

// inFake is a tensor in fakeMemory as the test may read and write it.
func inFake(x tensor.Tensor) (tensor.Tensor, error) {
	mem, at := x.Memory()
	if stuck, ok := mem.(stuckMemory); ok {
		mem = stuck.fakeMemory
	}
	m, ok := mem.(*fakeMemory)
	if !ok {
		return tensor.Tensor{}, fmt.Errorf("%w: %v, this group is on cuda:0", pg.ErrInvalidOp, x)
	}
	return tensor.FromBytes(x.DType(), (*m)[at:at+x.NumBytes()], x.Shape()...)
}

func aloneWorld(t *testing.T) *pgtest.World {
	return pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend { return deviceAlone{b} })
}

// TestPlanOnADevice: a hook of the user's, which wants a plan in each step, over a group that has a
// backend for a device alone.
func TestPlanOnADevice(t *testing.T) {
	t.Parallel()
	aloneWorld(t).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		hook := &phased{}
		hook.phase = int64(7 - 3*rank) // of which rank 0's holds
		red, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{Views: true, Alloc: onFake, Hook: hook, BucketBytes: 20})
		if err != nil {
			return err
		}
		for step := range 3 {
			for i := range 3 {
				grad := tensor.Slice[float32](must(inFake(red.Grad(i))))
				for j := range grad {
					grad[j] = float32(10*step + 2*i + 2*rank)
				}
				red.Ready(i)
			}
			if err := red.Reduce(ctx); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			for i := range 3 {
				want := float32(10*step + 2*i + 1)
				if got := tensor.Slice[float32](must(inFake(red.Grad(i)))); slices.ContainsFunc(got, func(v float32) bool { return v != want }) {
					t.Errorf("step %d: gradient %d is %v, want %v", step, i, got, want)
				}
			}
		}
		if want := []int64{7, 8, 9}; !slices.Equal(hook.begun, want) {
			t.Errorf("rank %d: phases %v, want %v", rank, hook.begun, want)
		}
		return g.Barrier(ctx)
	})
}

// phased is a hook that notes the phases that it was told.
type phased struct {
	ddp.AllReduce
	phase int64
	begun []int64
}

func (p *phased) Phase() int64      { return p.phase }
func (p *phased) Begin(phase int64) { p.phase, p.begun = phase, append(p.begun, phase) }
func (p *phased) Commit()           { p.phase++ }

// stuckMemory is fakeMemory that copies in one direction at most.
type stuckMemory struct {
	*fakeMemory
	to, from error
}

func (m stuckMemory) CopyFromHost(at int, src []byte) error {
	return errors.Join(m.to, m.fakeMemory.CopyFromHost(at, src))
}

func (m stuckMemory) CopyToHost(dst []byte, at int) error {
	return errors.Join(m.from, m.fakeMemory.CopyToHost(dst, at))
}

// TestPlanIsStuck: a plan that a rank cannot copy to its device, or from it, ends the step on all
// ranks, which would wait for that rank's buckets.
func TestPlanIsStuck(t *testing.T) {
	t.Parallel()
	stuck := errors.New("the bus is stuck")
	for name, m := range map[string]stuckMemory{"to": {to: stuck}, "from": {from: stuck}} {
		err := aloneWorld(t).Try(func(ctx context.Context, rank int, g *pg.Group) error {
			red, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{
				Views: true, Hook: ddp.HookFunc(ddp.AllReduce{}.Reduce),
				Alloc: func(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
					x, err := onFake(dtype, shape...)
					if dtype != tensor.Int32 || rank != 1 || err != nil {
						return x, err
					}
					mem, _ := x.Memory()
					own := m
					own.fakeMemory = mem.(*fakeMemory)
					return tensor.OnDevice(own, dtype, shape...)
				},
			})
			if err != nil {
				return err
			}
			for i := range 3 {
				red.Ready(i)
			}
			err = red.Reduce(ctx)
			if rank == 0 && !errors.Is(err, pg.ErrAborted) || rank == 1 && !errors.Is(err, stuck) {
				return fmt.Errorf("%s the device: got %w, want ErrAborted, and at rank 1 the copy's error", name, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPlanIsRefused: memory of Alloc's that cannot hold the plan is refused by New.
func TestPlanIsRefused(t *testing.T) {
	t.Parallel()
	g := pg.NewGroup(nil)
	_, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{
		Views: true, Hook: ddp.HookFunc(ddp.AllReduce{}.Reduce),
		Alloc: func(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
			if dtype == tensor.Int32 {
				return tensor.Tensor{}, errors.New("floats only")
			}
			return onFake(dtype, shape...)
		},
	})
	if err == nil || !strings.Contains(err.Error(), "allocate the plan: floats only") {
		t.Errorf("New: %v, want Alloc's error", err)
	}
}

// TestWeighOnADeviceAborts: a rank whose gradients cannot be weighed ends the step on the others too,
// of which one may have nothing to weigh, as it has all samples.
func TestWeighOnADeviceAborts(t *testing.T) {
	t.Parallel()
	err := aloneWorld(t).Try(func(ctx context.Context, rank int, g *pg.Group) error {
		red, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{Views: true, Alloc: onFake})
		if err != nil {
			return err
		}
		red.Weigh(4*(1-rank), 4)
		for i := range 3 {
			red.Ready(i)
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err = red.Reduce(ctx)
		if rank == 0 && (!errors.Is(err, pg.ErrAborted) || errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("got %w, want ErrAborted before the deadline", err)
		}
		if rank == 1 && (err == nil || !strings.Contains(err.Error(), `weigh "a" on cuda:0`)) {
			return fmt.Errorf("got %w, want the first gradient's name", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
