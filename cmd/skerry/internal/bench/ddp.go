package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// The envelope, for two ranks of one host and 25 MiB: an all-reduce takes 4 to 5 ms of
// both cores, in buckets of 4 MiB under way while the next gradients are computed. What is
// left at the end is the last bucket, 4 MiB or less: 1 ms; so it is in default buckets, of an
// eighth of the gradients. In buckets of 25 MiB, as DistributedDataParallel has them,
// nearly all gradients are in the second, which is full with the last one: the whole
// all-reduce is left. Gradients are views, so nothing is copied. A backward pass on the processor would take the cores that the all-reduce
// needs; the one here is a device's, which leaves them idle: the trainer sleeps.

// The ops of runDDP: a step by hook.
const (
	opStep      = "step"
	opStepLarge = "step-25mib-buckets"
	opStepHalf  = "step-bf16"
	opStepLow   = "step-powersgd"
)

const (
	ddpBytes    = 25 << 20
	ddpParams   = 32
	ddpBackward = 50 * time.Millisecond
	ddpRank     = 2
)

// runDDP measures a step's backward pass and reduction.
func runDDP(ctx context.Context, o Options, emit emitFunc) error {
	o.Peers = false // none has a trainer here
	contest := Contest{Bench: "ddp", Unit: "ms", Samples: cmp.Or(o.Samples, 20), Warmup: 2}
	kinds := append(ourTransports(), rankKind{impl: "skerry-baby", Transport: tcp.TransportAuto, Child: childAlloc})
	return withRanks(ctx, o, o.worlds(2), kinds, func(n int, all []Contestant) error {
		var sets []Params
		for _, op := range []string{opStep, opStepLarge, opStepHalf, opStepLow} {
			for _, size := range o.sizes(ddpBytes) {
				sets = append(sets, Params{"op": op, "n": n, "bytes": size, "backward_ms": int(ddpBackward.Milliseconds())})
			}
		}
		return contest.Each(ctx, all, emit, sets...)
	})
}

// overlap is a trainer whose gradients become ready one by one.
type overlap struct {
	red  *ddp.Reducer
	tick *time.Timer
}

// step is a step of the trainer for a task, which is made for the first.
func (s *rankServer) step(t task) (func(context.Context) error, error) {
	t.Iters = 0
	if step, ok := s.steps[t]; ok {
		return step, nil
	}
	o := ddp.Options{Views: true}
	if t.Op == opStepLarge {
		o.BucketBytes = ddp.DefaultBucketBytes
	}
	if s.child != nil {
		o.Alloc = s.child.Alloc
	}
	step, err := newOverlap(s.group, t, o)
	s.steps[t] = step
	return step, err
}

// newOverlap returns a step of a trainer of so many bytes of gradients.
func newOverlap(g *pg.Group, t task, options ddp.Options) (func(context.Context) error, error) {
	params := make([]ddp.Param, ddpParams)
	side := max(int(t.Bytes/4/ddpParams/256), 1)
	for i := range params {
		params[i] = ddp.Param{Name: fmt.Sprint("layer", i), DType: tensor.Float32, Shape: []int{side, 256}}
	}
	var err error
	if options.Hook, err = hookOf(t.Op, params); err != nil {
		return nil, err
	}
	red, err := ddp.New(ddp.Over(g), params, options)
	if err != nil {
		return nil, err
	}
	o := &overlap{red: red, tick: time.NewTimer(0)}
	for i := range params {
		grad := tensor.Slice[float32](red.Grad(i))
		for j := range grad {
			grad[j] = float32(j % 13)
		}
	}
	return o.step, nil
}

func hookOf(op string, params []ddp.Param) (ddp.Hook, error) {
	switch op {
	case opStepHalf:
		return ddp.NewCompress(tensor.BFloat16, nil)
	case opStepLow:
		return powersgd.New(params, powersgd.Config{Rank: ddpRank})
	}
	return nil, nil
}

// step is a backward pass, and what is left of the reduction after it.
func (o *overlap) step(ctx context.Context) error {
	began := time.Now()
	for i := range ddpParams {
		o.tick.Reset(time.Until(began.Add(ddpBackward * time.Duration(i+1) / ddpParams)))
		select {
		case <-o.tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		o.red.Ready(ddpParams - 1 - i)
	}
	return o.red.Reduce(ctx)
}
