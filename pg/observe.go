package pg

import (
	"context"
	"sync"
	"time"
)

// OpInfo is what an Observer learns of an op. It is a value, and refers to no
// memory of the op's.
type OpInfo struct {
	Kind     Kind
	Reduce   ReduceOp
	DType    DType // of the first tensor
	Tensors  int   // on the side that has more
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
	for side, tensors := range [2][]Tensor{op.In, op.Out} {
		for t := range tensors {
			if i.DType == InvalidDType {
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
	backend  Backend
	observer Observer
	track    tracker
	relays   *sync.Pool
}

// NewObserve puts Observe around b, which it owns from now on.
func NewObserve(b Backend, observer Observer) *Observe {
	o := &Observe{backend: b, observer: observer}
	o.relays = newRelayPool(o.settle)
	return o
}

// Name is that of the backend.
func (o *Observe) Name() string { return o.backend.Name() }

// Unwrap is the backend.
func (o *Observe) Unwrap() Backend { return o.backend }

// SetRound passes the round on, if the backend knows rounds.
func (o *Observe) SetRound(round int64) { setRound(o.backend, round) }

// Config is that of the backend below.
func (o *Observe) Config() (Config, bool) { return configOf(o.backend, &o.track) }

// Redecorate puts around a subgroup's backend an Observe with the same
// Observer.
func (o *Observe) Redecorate(inner Backend, _ []int) Backend { return NewObserve(inner, o.observer) }

func (o *Observe) tracked() *tracker { return &o.track }

func (o *Observe) epochs() (current, next Epoch) { return epochsOf(o.backend, &o.track) }

// Configure configures the backend.
func (o *Observe) Configure(ctx context.Context, c Config) error {
	return o.track.configure(ctx, o.backend, c)
}

// Submit tells of op and starts it.
func (o *Observe) Submit(op *Op) *Work {
	r := begin(o.relays, op)
	work := r.work
	r.info, r.began = infoOf(op), time.Now()
	o.observer.Begin(r.info)
	r.submit(o.backend, *op)
	return work
}

// Abort aborts the backend.
func (o *Observe) Abort(e Epoch, cause error) { o.backend.Abort(e, cause) }

// Err is the backend's.
func (o *Observe) Err() error { return o.backend.Err() }

// Close closes the backend.
func (o *Observe) Close() error { return o.backend.Close() }

func (o *Observe) settle(r *relay, err error) error {
	info := r.info
	if info.Kind == KindRecv {
		info.Peer = r.outer.Source
	}
	o.observer.End(info, time.Since(r.began), err)
	return err
}
