package pg_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
)

// validAt makes a valid op of every kind for a rank of three.
func validAt(k pg.Kind, rank int) *pg.Op {
	f := func(n int) []tensor.Tensor {
		var ts []tensor.Tensor
		for range n {
			ts = append(ts, tensor.New(tensor.Float32, 4))
		}
		return ts
	}
	op := &pg.Op{Kind: k, Root: 1}
	switch k {
	case pg.KindAllReduce:
		op.In, op.Out = f(2), f(2)
	case pg.KindReduce:
		op.In = f(2)
		if rank == 1 {
			op.Out = f(2)
		}
	case pg.KindBroadcast:
		op.Out = f(2)
		if rank == 1 {
			op.In = f(2)
		}
	case pg.KindAllGather:
		op.In, op.Out = f(1), f(3)
	case pg.KindGather:
		op.In = f(1)
		if rank == 1 {
			op.Out = f(3)
		}
	case pg.KindScatter:
		op.Out = f(1)
		if rank == 1 {
			op.In = f(3)
		}
	case pg.KindReduceScatter:
		op.In, op.Out = f(3), f(1)
	case pg.KindAllToAll:
		op.In, op.Out = f(3), f(3)
	case pg.KindSend:
		op.Peer, op.In = (rank+1)%3, f(1)
	case pg.KindRecv:
		op.Peer, op.Out = pg.AnySource, f(1)
	case pg.KindBallot:
		op.Ballot = make([]byte, pg.MaxBallotBytes)
	case pg.KindBatch:
		op.Batch = []*pg.Op{validAt(pg.KindAllGather, rank), validAt(pg.KindRecv, rank)}
	}
	return op
}

// TestValidate: a valid op of every kind passes at every rank, without an
// allocation; with one tensor more or less on either side it does not.
func TestValidate(t *testing.T) {
	for _, k := range pg.Kinds() {
		for rank := range 3 {
			op := validAt(k, rank)
			if err := op.Validate(rank, 3); err != nil {
				t.Errorf("%v at rank %d: %v", k, rank, err)
			}
			if n := testing.AllocsPerRun(10, func() { _ = op.Validate(rank, 3) }); n != 0 {
				t.Errorf("%v at rank %d: Validate allocates %v times", k, rank, n)
			}
			for side, change := range map[string]func(op *pg.Op){
				"one more In":  func(op *pg.Op) { op.In = append(op.In, tensor.New(tensor.Float32, 4)) },
				"one more Out": func(op *pg.Op) { op.Out = append(op.Out, tensor.New(tensor.Float32, 4)) },
				"one less In":  func(op *pg.Op) { op.In = op.In[:max(len(op.In)-1, 0)] },
				"one less Out": func(op *pg.Op) { op.Out = op.Out[:max(len(op.Out)-1, 0)] },
			} {
				changed := validAt(k, rank)
				change(changed)
				same := len(changed.In) == len(op.In) && len(changed.Out) == len(op.Out)
				loose := k == pg.KindReduce && rank != 1 && strings.HasSuffix(side, "In") ||
					k == pg.KindBroadcast && rank != 1 && strings.HasSuffix(side, "Out") // the number is free
				if err := changed.Validate(rank, 3); !same && !loose && !errors.Is(err, pg.ErrInvalidOp) {
					t.Errorf("%v at rank %d with %s: %v, want ErrInvalidOp", k, rank, side, err)
				}
			}
		}
	}
}

// TestValidateNames: each refusal names value and bound.
func TestValidateNames(t *testing.T) {
	change := func(k pg.Kind, f func(op *pg.Op)) *pg.Op {
		op := validAt(k, 0)
		f(op)
		return op
	}
	strided, _ := tensor.New(tensor.Float32, 8).AsStrided([]int{4}, []int{2})
	for _, c := range []struct {
		op   *pg.Op
		says []string
	}{
		{&pg.Op{}, []string{"invalid"}},
		{&pg.Op{Kind: 77}, []string{"kind(77)"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.Reduce = 44 }), []string{"reduce-op(44)"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.Divisor = -2 }), []string{"-2"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.PerRank = -3 }), []string{"-3"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.PerRank = 1 << 33 }), []string{"8589934592", "2147483647"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.Reduce, op.Factor = tensor.PreMulSum, math.NaN() }), []string{"NaN"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.In[1] = strided }), []string{"In[1]", "not contiguous", "strides [2]"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.Out[0] = tensor.New(tensor.Float32, 5) }), []string{"4", "5"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.In[0] = tensor.Tensor{} }), []string{"In[0]", "no tensor"}},
		{change(pg.KindAllReduce, func(op *pg.Op) { op.Out[1] = tensor.New(tensor.Int8, 4) }), []string{"Out[1]", "int8", "float32"}},
		{change(pg.KindBroadcast, func(op *pg.Op) { op.Root = 3 }), []string{"root 3", "0 to 2"}},
		{change(pg.KindGather, func(op *pg.Op) { op.Root = -1 }), []string{"root -1"}},
		{change(pg.KindAllGather, func(op *pg.Op) { op.Out = op.Out[:2] }), []string{"2", "want 3"}},
		{change(pg.KindSend, func(op *pg.Op) { op.Peer = 5 }), []string{"peer 5", "0 to 2"}},
		{change(pg.KindSend, func(op *pg.Op) { op.Peer = pg.AnySource }), []string{"peer -1"}},
		{change(pg.KindSend, func(op *pg.Op) { op.Peer = 0 }), []string{"itself"}},
		{change(pg.KindRecv, func(op *pg.Op) { op.Tag = -3 }), []string{"tag -3"}},
		{change(pg.KindBallot, func(op *pg.Op) { op.Ballot = make([]byte, 5000) }), []string{"5000", "4096"}},
	} {
		err := c.op.Validate(0, 3)
		if !errors.Is(err, pg.ErrInvalidOp) {
			t.Errorf("%v, want ErrInvalidOp", err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
	for _, rank := range []int{-1, 3} {
		if err := validAt(pg.KindBarrier, 0).Validate(rank, 3); !errors.Is(err, pg.ErrInvalidOp) {
			t.Errorf("rank %d of 3: %v, want ErrInvalidOp", rank, err)
		}
	}
	if err := (&pg.Op{Kind: pg.KindRecv, Peer: pg.AnySource, Out: validAt(pg.KindRecv, 0).Out}).Validate(0, 1); err == nil {
		t.Error("a receive from anybody passed in a world of one")
	}
}

// cudaMemory is device memory in name only.
type cudaMemory struct{ tensor.DeviceMemory }

func (cudaMemory) Device() tensor.Device { return tensor.CUDA(1) }
func (cudaMemory) NumBytes() int         { return 16 }

func TestValidateOnDevice(t *testing.T) {
	x, err := tensor.OnDevice(cudaMemory{}, tensor.Float32, 4)
	if err != nil {
		t.Fatal(err)
	}
	op := &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}}
	if err := op.Validate(0, 1); err != nil {
		t.Errorf("op on a device: %v", err)
	}
	if err := op.RequireCPU(); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("a device tensor as a host one: %v, want ErrInvalidOp", err)
	}
}

// TestRefusedReductions: what the kernels refuse has the sentinel of ops.
func TestRefusedReductions(t *testing.T) {
	g := pg.NewGroup(dummy.New())
	if err := g.Configure(t.Context(), pg.Config{ReplicaIDs: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dtype  tensor.DType
		reduce tensor.ReduceOp
		want   error
	}{
		{tensor.Int32, tensor.Avg, pg.ErrInvalidOp},
		{tensor.Complex64, tensor.Max, pg.ErrInvalidOp},
		{tensor.Float8E4M3, tensor.Sum, pg.ErrUnsupported},
	} {
		err := g.AllReduce(t.Context(), tensor.New(c.dtype, 2), c.reduce)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.dtype.String()) {
			t.Errorf("%v of %v: %v, want %v", c.reduce, c.dtype, err, c.want)
		}
	}
	// An average over more tensors than a divisor can count, not over those of a divisor that wrapped.
	x := []tensor.Tensor{tensor.Of([]float64{8})}
	w := g.Submit(&pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Avg, PerRank: math.MaxInt, In: x, Out: x})
	if err := g.Wait(t.Context(), w); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("average with PerRank = %d: %v, want ErrInvalidOp", math.MaxInt, err)
	}
	if !errors.Is(pg.ErrUnsupported, errors.ErrUnsupported) || errors.Is(errors.ErrUnsupported, pg.ErrUnsupported) {
		t.Error("ErrUnsupported is an errors.ErrUnsupported, and not the other way round")
	}
}
