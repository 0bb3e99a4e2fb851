package pg

import (
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// OpInfo is what an Observer learns of an op. It is a value, and refers to no
// memory of the op's.
type OpInfo struct {
	Kind     Kind
	Reduce   tensor.ReduceOp
	DType    tensor.DType // of the first tensor
	Tensors  int          // on the side that has more
	InBytes  int
	OutBytes int
	Root     int
	Peer     int
	Tag      int
}

// infoOf describes op; a batch is the sum of its ops.
func infoOf(op *Op) OpInfo {
	info := OpInfo{Kind: op.Kind, Reduce: op.Reduce, Root: op.Root, Peer: op.Peer, Tag: op.Tag}
	if op.Kind != KindBatch {
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

func (i *OpInfo) add(op *Op) {
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
// block, and are called from any goroutine. Package pg/pgmetrics has one for
// Prometheus.
type Observer interface {
	// Begin is called before an op is submitted.
	Begin(OpInfo)
	// End is called when it is done, so long after Begin.
	End(i OpInfo, took time.Duration, err error)
}

// Observe calls an Observer. A group that has none goes without this decorator,
// and pays nothing. It allocates nothing.
type Observe struct {
	*Layer

	observer Observer
	relays   *Relays[observedOp]
}

// observedOp is what Observe notes of an op.
type observedOp struct {
	info  OpInfo // what Begin was told
	began time.Time
}

// NewObserve puts Observe around b, which it owns from now on.
func NewObserve(b Backend, observer Observer) *Observe {
	o := &Observe{Layer: NewLayer(b), observer: observer}
	o.relays = NewRelays(o.settle)
	return o
}

// Redecorate puts around a subgroup's backend an Observe with the same
// Observer.
func (o *Observe) Redecorate(inner Backend, _ []int) Backend { return NewObserve(inner, o.observer) }

// Submit tells of op and starts it.
func (o *Observe) Submit(op *Op) *Work {
	r := o.relays.Begin(op)
	work := r.Work()
	r.State.info, r.State.began = infoOf(op), time.Now()
	o.observer.Begin(r.State.info)
	r.Submit(o.backend, *op)
	return work
}

func (o *Observe) settle(r *Relay[observedOp], err error) error {
	info := r.State.info
	if info.Kind == KindRecv {
		info.Peer = r.Op().Source
	}
	o.observer.End(info, time.Since(r.State.began), err)
	return err
}
