package localsgd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// errOtherStep ends a round in which a replica that takes part is at another step than
// the others. No manager lets that come about.
var errOtherStep = errors.New("localsgd: another replica reduces another step")

// reducer averages elements, of one fragment at a time.
type reducer struct {
	Reduction

	lengths []int     // of the fragments
	buffer  []float32 // as long as the longest: what this replica brings, then the average
	sent    quant.Sent
}

func newReducer(r Reduction, fragments []*fragment) *reducer {
	red := &reducer{Reduction: r}
	longest := 0
	for _, f := range fragments {
		red.lengths = append(red.lengths, len(f.global))
		longest = max(longest, len(f.global))
	}
	red.buffer = make([]float32, longest)
	return red
}

// run averages the fragment of a step over g's ranks that take part. A rank that does not
// takes the step from the others.
func (r *reducer) run(ctx context.Context, g *pg.Group, step int64) error {
	r.sent = quant.Sent{}
	return g.Compose(ctx, func(c *pg.Composed) error {
		step, err := r.agree(ctx, c, step)
		if err != nil {
			return err
		}
		n := r.lengths[step%int64(len(r.lengths))]
		r.sent = r.given(n, c.Size())
		if r.Quantize != nil {
			return r.quantized(ctx, c, r.buffer[:n])
		}
		return r.plain(ctx, c, r.buffer[:n])
	})
}

// agree is the step that the ranks are at which take part.
func (r *reducer) agree(ctx context.Context, c *pg.Composed, step int64) (int64, error) {
	if len(r.lengths) == 1 {
		return step, nil
	}
	highest := []int64{step}
	t := []tensor.Tensor{tensor.Of(highest)}
	if err := c.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Max, In: t, Out: t}); err != nil {
		return 0, fmt.Errorf("reduce the step: %w", err)
	}
	switch {
	case c.Rank() >= 0 && highest[0] != step:
		return 0, fmt.Errorf("%w: step %d here, %d there", errOtherStep, step, highest[0])
	case highest[0] < 0:
		return 0, fmt.Errorf("%w: step %d, want 0 or more", errOtherStep, highest[0])
	}
	return highest[0], nil
}

// plain averages x in float32. It waits for every bucket before it returns, also after
// an error: none may touch x then.
func (r *reducer) plain(ctx context.Context, c *pg.Composed, x []float32) error {
	var works []*pg.Work
	for part := range slices.Chunk(x, r.bucket()) {
		t := []tensor.Tensor{tensor.Of(part)}
		works = append(works, c.Start(&pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Avg, In: t, Out: t}))
	}
	var first error
	for i, w := range works {
		if err := c.Wait(ctx, w); err != nil && first == nil {
			first = fmt.Errorf("average bucket %d of %d: %w", i, len(works), err)
		}
	}
	return first
}

// quantized averages x in eight bits, bucket by bucket.
func (r *reducer) quantized(ctx context.Context, c *pg.Composed, x []float32) error {
	i := 0
	for part := range slices.Chunk(x, r.bucket()) {
		if err := quant.AllReduceIn(ctx, c, part, tensor.Avg, *r.Quantize); err != nil {
			return fmt.Errorf("average quantised bucket %d: %w", i, err)
		}
		i++
	}
	return nil
}

// given is what averaging so many elements gives to ops, among so many ranks.
func (r *reducer) given(elements, ranks int) (s quant.Sent) {
	if len(r.lengths) > 1 {
		s = quant.Sent{Ops: 1, Bytes: 8}
	}
	for from := 0; from < elements; from += r.bucket() {
		n := min(r.bucket(), elements-from)
		if r.Quantize != nil {
			s = s.Add(r.Quantize.Sent(quant.World{Elements: n, Ranks: ranks}))
		} else {
			s = s.Add(quant.Sent{Ops: 1, Bytes: int64(n) * floatBytes})
		}
	}
	return s
}

// underWay is a reduction that has begun.
type underWay struct {
	step int64 // of the manager, of which it is

	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	done   chan struct{}
	err    error // set when done is closed
}

// reduce begins a reduction. Beside says that it outlives the call, and ctx.
func (r *reducer) reduce(ctx context.Context, g *pg.Group, step int64, beside bool) *underWay {
	u := &underWay{step: step, done: make(chan struct{})}
	if !beside {
		u.cancel = func(error) {}
		u.err = r.run(ctx, g, step)
		close(u.done)
		return u
	}
	ctx, u.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	u.wg.Go(func() {
		defer close(u.done)
		u.err = r.run(ctx, g, step)
	})
	return u
}

// wait waits for the end of the reduction. If ctx ends first it is aborted.
func (u *underWay) wait(ctx context.Context) error {
	select {
	case <-u.done:
	case <-ctx.Done():
		u.cancel(context.Cause(ctx))
	}
	u.wg.Wait()
	u.cancel(nil)
	return u.err
}
