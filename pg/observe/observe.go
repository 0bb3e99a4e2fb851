// Package observe tells an [Observer] of every op of a group, for metrics and profiles.
// Package pg/pgmetrics has an Observer for Prometheus.
package observe

import (
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Info is what an Observer learns of an op. It is a value, and refers to no
// memory of the op's.
type Info struct {
	Kind     pg.Kind
	Reduce   tensor.ReduceOp
	DType    tensor.DType // of the first tensor
	Tensors  int          // on the side that has more
	InBytes  int
	OutBytes int
	Root     int
	Peer     int
	Tag      int
}

// InfoOf describes op; a batch is the sum of its ops.
func InfoOf(op *pg.Op) Info {
	info := Info{Kind: op.Kind, Reduce: op.Reduce, Root: op.Root, Peer: op.Peer, Tag: op.Tag}
	if op.Kind != pg.KindBatch {
		info.add(op)
		return info
	}
	for _, sub := range op.Batch {
		if sub != nil {
			info.add(sub)
		}
	}
	return info
}

func (i *Info) add(op *pg.Op) {
	i.Tensors += max(len(op.In), len(op.Out))
	for side, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		for t := range tensors {
			if i.DType == tensor.Invalid {
				i.DType = tensors[t].DType()
			}
			if side == 0 {
				i.InBytes += tensors[t].NumBytes()
			} else {
				i.OutBytes += tensors[t].NumBytes()
			}
		}
	}
}

// Observer is told of every op of a group, for metrics. Its methods must not
// block, and are called from any goroutine.
type Observer interface {
	// Begin is called before an op is submitted.
	Begin(Info)
	// End is called when it is done, so long after Begin.
	End(i Info, took time.Duration, err error)
}

// Decorator calls an Observer. A group that has none goes without this decorator,
// and pays nothing. It allocates nothing. Safe for concurrent use; the Observer has to
// be, too.
type Decorator struct {
	*pg.Layer

	observer Observer
	relays   *pg.Relays[observedOp]
}

// observedOp is what a Decorator notes of an op.
type observedOp struct {
	info  Info // what Begin was told
	began time.Time
}

// New puts a Decorator around b, which it owns from now on.
func New(b pg.Backend, observer Observer) *Decorator {
	o := &Decorator{Layer: pg.NewLayer(b), observer: observer}
	o.relays = pg.NewRelays(o.settle)
	return o
}

// Redecorate puts around a subgroup's backend a Decorator with the same
// Observer.
func (o *Decorator) Redecorate(inner pg.Backend, _ []int) pg.Backend { return New(inner, o.observer) }

// Submit tells of op and starts it.
func (o *Decorator) Submit(op *pg.Op) *pg.Work {
	r := o.relays.Begin(op)
	work := r.Work()
	r.State.info, r.State.began = InfoOf(op), time.Now()
	o.observer.Begin(r.State.info)
	r.Submit(o.Unwrap(), *op)
	return work
}

func (o *Decorator) settle(r *pg.Relay[observedOp], err error) error {
	info := r.State.info
	if info.Kind == pg.KindRecv {
		info.Peer = r.Op().Source
	}
	o.observer.End(info, time.Since(r.State.began), err)
	return err
}
