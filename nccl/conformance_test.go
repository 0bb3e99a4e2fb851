package nccl

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// hostside is a backend for host tensors over one for device tensors: it copies
// them to the device at Submit and back when the op is done. The suite's tensors
// are on the host.
type hostside struct {
	pg.Backend
	dev *Device
}

// Sibling implements pg.Sibling.
func (h hostside) Sibling() (pg.Backend, error) {
	b, err := h.Backend.(pg.Sibling).Sibling()
	return hostside{b, h.dev}, err
}

// Submit implements pg.Backend.
func (h hostside) Submit(op *pg.Op) *pg.Work {
	below := *op
	var buffers []*Buffer
	free := func() (err error) {
		for _, b := range buffers {
			if c, ok := h.Backend.(*baby.Backend); ok {
				err = errors.Join(err, c.Unshare(b))
			}
			err = errors.Join(err, b.Close())
		}
		return err
	}
	up := func(t tensor.Tensor) (tensor.Tensor, error) {
		if t.Bytes() == nil && t.Len() > 0 || !t.DType().Valid() {
			return t, nil // not contiguous: the backend refuses it
		}
		b, err := h.dev.Alloc(max(t.NumBytes(), 1))
		if err != nil {
			return t, err
		}
		buffers = append(buffers, b)
		if err := b.CopyFromHost(0, t.Bytes()); err != nil {
			return t, err
		}
		return tensor.OnDevice(b, t.DType(), t.Len())
	}
	below.In, below.Out = make([]tensor.Tensor, len(op.In)), make([]tensor.Tensor, len(op.Out))
	for i, t := range op.In {
		x, err := up(t)
		if err != nil {
			return pg.Finished(op, err)
		}
		below.In[i] = x
	}
	for i, t := range op.Out {
		if j := slices.IndexFunc(op.In, t.SameMemory); j >= 0 {
			below.Out[i] = below.In[j]
			continue
		}
		x, err := up(t)
		if err != nil {
			return pg.Finished(op, err)
		}
		below.Out[i] = x
	}
	work := pg.NewWork(op)
	inner := h.Backend.Submit(&below)
	inner.Then(func(err error) {
		if err == nil {
			for i, t := range below.Out {
				if mem, _ := t.Memory(); mem != nil {
					err = errors.Join(err, mem.CopyToHost(op.Out[i].Bytes(), 0))
				}
			}
		}
		op.Seq, op.Epoch, op.Round, op.Source = below.Seq, below.Epoch, below.Round, below.Source
		work.Complete(errors.Join(err, free()))
	})
	return work
}

func onHostSide(b *Backend) hostside { return hostside{b, b.opt.Device} }

func newBackend(t testing.TB, f *fakes, index int) *Backend {
	t.Helper()
	b, err := New(Options{Library: f.lib, Device: f.device(t, index), AbortLimit: pgtest.PromptBound})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The group keeps the contract of package pg where the library can.
func TestConformance(t *testing.T) {
	f := open(t)
	pgtest.RunWith(t, harness(func(t *testing.T) pg.Backend { return onHostSide(newBackend(t, f, 0)) }))
}

// harness is what the suite can ask of NCCL.
func harness(make func(t *testing.T) pg.Backend) pgtest.Harness {
	return pgtest.Harness{
		New:       make,
		Kinds:     slices.DeleteFunc(pg.Kinds(), func(k pg.Kind) bool { return k == pg.KindBallot }),
		DTypes:    []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Int8},
		NoDigests: true,
		Except: map[string]string{
			"Reductions":       "NCCL has no bit ops, and rounds as it will: see TestReductions",
			"ReduceScatter":    "NCCL rounds as it will: see TestReductions",
			"PointToPoint":     "NCCL has no tags: see TestPointToPoint",
			"AnySource":        "NCCL has none",
			"Batches":          "NCCL has no tags: see TestPointToPoint",
			"Seeds":            "NCCL has no ballots and no tags",
			"MonitoredBarrier": "NCCL has no tags; the CPU group beside it has the barrier",
			"Uneven":           "the test's copies to the device take no batch",
			"Poison":           "the test's copies to the device take no batch",
			"Multi":            "the test's copies to the device take no batch",
			"Order":            "the test's copies to the device are made at Submit: see TestChained",
			"BigReductions":    "NCCL rounds as it will: see TestReductions",
			"AbortStress":      "it calls different sizes, which NCCL cannot tell: see TestAbortStress",
			"Mismatch":         "NCCL cannot tell different collectives apart; debug.Check does",
		},
	}
}

// Everything the device was asked for is given back.
func TestNothingLeft(t *testing.T) {
	f := open(t)
	before := f.live()
	t.Run("world", func(t *testing.T) {
		w := pgtest.NewWorld(t, pgtest.StartStore(t))
		m := []pgtest.Member{w.Join("a", onHostSide(newBackend(t, f, 0))), w.Join("b", onHostSide(newBackend(t, f, 1)))}
		for range 3 {
			w.Configure(m...)
			w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
				return g.AllReduce(ctx, tensor.New(tensor.Float32, 1000), tensor.Sum)
			})
			w.Groups[0].Abort(errors.New("enough"))
		}
	})
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.live() > before {
		if time.Now().After(deadline) {
			t.Fatalf("events, streams and blocks alive: %09d, want %09d", f.live(), before)
		}
		<-tick.C
	}
}
