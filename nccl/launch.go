package nccl

import (
	"fmt"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

func pointerOf(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// A launch turns one op into calls of the library, on one stream.
type launch struct {
	c       *communicator
	raw     comm
	stream  uintptr
	rank    int
	world   int
	scratch uintptr // a few bytes for barriers
	op      *pg.Op  // of a joint
}

// supports tells, before anything is launched, whether the library has op.
func supports(op *pg.Op, world int) error {
	switch op.Kind {
	case pg.KindBallot:
		return fmt.Errorf("%w: NCCL carries no ballots; pair it with a CPU backend", pg.ErrUnsupported)
	case pg.KindSend, pg.KindRecv:
		if op.Peer == pg.AnySource {
			return fmt.Errorf("%w: NCCL receives only from a rank that is named", pg.ErrUnsupported)
		}
		if op.Tag != 0 {
			return fmt.Errorf("%w: NCCL has no tags, got %d, want 0", pg.ErrUnsupported, op.Tag)
		}
	}
	if !op.Kind.Reduces() || len(op.In) == 0 {
		return nil
	}
	e, _, factor, err := reduced(op.In[0], op.Reduce, op.EffectiveDivisor(world), world, op.Factor)
	if err == nil && factor != 1 {
		_, err = scalar(e.dtype, factor)
	}
	return err
}

func address(t tensor.Tensor) uintptr {
	mem, offset := t.Memory()
	if mem == nil {
		return 0
	}
	return mem.Address() + uintptr(offset)
}

// run makes the calls of op, as one group, so that they start together.
func (l *launch) run(op *pg.Op) error {
	if err := inGroup(l.c.lib, func() error { return l.all(op) }); err != nil {
		return err
	}
	return l.c.trimOps(l.raw)
}

// inGroup makes calls that start together.
func inGroup(lib *Library, calls func() error) error {
	if err := lib.check("ncclGroupStart", lib.f.groupStart(), 0); err != nil {
		return err
	}
	err := calls()
	if end := lib.check("ncclGroupEnd", lib.f.groupEnd(), 0); err == nil {
		err = end
	}
	return err
}

// all makes the calls of op.
func (l *launch) all(op *pg.Op) error {
	for _, sub := range parts(op) {
		if err := l.calls(sub); err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) check(name string, code int32) error { return l.c.lib.check(name, code, l.raw) }

func (l *launch) calls(op *pg.Op) error {
	switch op.Kind {
	case pg.KindAllReduce, pg.KindReduce:
		return l.reduce(op)
	case pg.KindReduceScatter:
		return l.reduceScatter(op)
	case pg.KindBroadcast:
		return l.broadcast(op)
	case pg.KindAllGather:
		return l.allGather(op)
	case pg.KindBarrier:
		return l.check("ncclAllReduce", l.c.lib.f.allReduce(l.scratch, l.scratch, 1, ncclInt8, ncclSum, l.raw, l.stream))
	case pg.KindGather, pg.KindScatter, pg.KindAllToAll, pg.KindSend, pg.KindRecv:
		return l.pointToPoint(op)
	default:
		return fmt.Errorf("%w: %v", pg.ErrUnsupported, op.Kind)
	}
}

// reduceOp is the library's op for one of ours, registered if need be.
func (l *launch) reduceOp(op *pg.Op, t tensor.Tensor) (e elements, code int32, err error) {
	e, code, factor, err := reduced(t, op.Reduce, op.EffectiveDivisor(l.world), l.world, op.Factor)
	if err == nil && factor != 1 {
		code, err = l.c.preMulSum(l.raw, e.dtype, factor)
	}
	return e, code, err
}

func (l *launch) reduce(op *pg.Op) error {
	for i, in := range op.In {
		e, code, err := l.reduceOp(op, in)
		if err != nil {
			return err
		}
		if op.Kind == pg.KindAllReduce {
			err = l.check("ncclAllReduce", l.c.lib.f.allReduce(address(in), address(op.Out[i]), e.count, e.dtype, code, l.raw, l.stream))
		} else {
			var out uintptr
			if i < len(op.Out) {
				out = address(op.Out[i])
			}
			err = l.check("ncclReduce", l.c.lib.f.reduce(address(in), out, e.count, e.dtype, code, int32(op.Root), l.raw, l.stream))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inARow tells whether tensors lie one behind the other and are of one size, as
// the library's own all-gather and reduce-scatter want them.
func inARow(all []tensor.Tensor) bool {
	size := all[0].NumBytes()
	for i, t := range all {
		if t.NumBytes() != size || address(t) != address(all[0])+uintptr(i*size) {
			return false
		}
	}
	return true
}

func (l *launch) reduceScatter(op *pg.Op) error {
	if inARow(op.In) {
		e, code, err := l.reduceOp(op, op.Out[0])
		if err != nil {
			return err
		}
		return l.check("ncclReduceScatter",
			l.c.lib.f.reduceScatter(address(op.In[0]), address(op.Out[0]), e.count, e.dtype, code, l.raw, l.stream))
	}
	for root, in := range op.In {
		e, code, err := l.reduceOp(op, in)
		if err != nil {
			return err
		}
		var out uintptr
		if root == l.rank {
			out = address(op.Out[0])
		}
		err = l.check("ncclReduce", l.c.lib.f.reduce(address(in), out, e.count, e.dtype, code, int32(root), l.raw, l.stream))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) broadcast(op *pg.Op) error {
	for i, out := range op.Out {
		in := address(out)
		if l.rank == op.Root && i < len(op.In) {
			in = address(op.In[i])
		}
		e := moved(out)
		err := l.check("ncclBroadcast", l.c.lib.f.broadcast(in, address(out), e.count, e.dtype, int32(op.Root), l.raw, l.stream))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) allGather(op *pg.Op) error {
	if inARow(op.Out) {
		e := moved(op.In[0])
		return l.check("ncclAllGather",
			l.c.lib.f.allGather(address(op.In[0]), address(op.Out[0]), e.count, e.dtype, l.raw, l.stream))
	}
	for root, out := range op.Out {
		in := address(out)
		if root == l.rank {
			in = address(op.In[0])
		}
		e := moved(out)
		err := l.check("ncclBroadcast", l.c.lib.f.broadcast(in, address(out), e.count, e.dtype, int32(root), l.raw, l.stream))
		if err != nil {
			return err
		}
	}
	return nil
}

// pointToPoint sends In[i] to the rank that it is for, and receives Out[i] from the
// rank that it comes from.
func (l *launch) pointToPoint(op *pg.Op) error {
	other := func(i int, withRoot pg.Kind) int32 {
		switch op.Kind {
		case withRoot:
			return int32(op.Root)
		case pg.KindSend, pg.KindRecv:
			return int32(op.Peer)
		default:
			return int32(i)
		}
	}
	for i, in := range op.In {
		e := moved(in)
		if err := l.check("ncclSend", l.c.lib.f.send(address(in), e.count, e.dtype, other(i, pg.KindGather), l.raw, l.stream)); err != nil {
			return err
		}
	}
	for i, out := range op.Out {
		e := moved(out)
		if err := l.check("ncclRecv", l.c.lib.f.recv(address(out), e.count, e.dtype, other(i, pg.KindScatter), l.raw, l.stream)); err != nil {
			return err
		}
	}
	return nil
}
