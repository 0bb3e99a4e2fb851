package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/worker"
)

// task is one line to rank 0 of a contestant's processes: run Op on Bytes,
// Iters times. Bytes 0 means: end. The C program relies on the order of fields.
type task struct {
	Bytes int64  `json:"bytes"`
	Iters int64  `json:"iters"`
	Op    string `json:"op"`
}

// timing is the answer.
type timing struct {
	Seconds float64 `json:"seconds"`
}

// taskTime is how long one sample should last: long against a clock's tick and a
// scheduler's slice, short enough for many rounds.
const taskTime = 40 * time.Millisecond

// maxIters bounds a sample of tiny messages.
const maxIters = 2000

// lineClient drives processes that read tasks and answer with timings.
type lineClient struct {
	worker.Lines

	iters map[task]int64 // by task without Iters, found in the first sample
	takes time.Duration  // of a sample; 0: taskTime
}

func newLineClient(lines worker.Lines) *lineClient {
	return &lineClient{Lines: lines, iters: map[task]int64{}}
}

// Sample measures microseconds per op; one of edges has 4 bytes.
func (c *lineClient) Sample(ctx context.Context, p Params) (float64, error) {
	t := task{Bytes: 4, Op: opOf(p)}
	if bytes, ok := p["bytes"].(int64); ok {
		t.Bytes = bytes
	}
	iters, known := c.iters[t]
	if !known {
		once, err := c.do(ctx, task{Bytes: t.Bytes, Iters: 2, Op: t.Op})
		if err != nil {
			return 0, err
		}
		takes := cmp.Or(c.takes, taskTime)
		iters = min(max(int64(takes.Seconds()/(once/2+1e-9)), 1), maxIters)
		c.iters[t] = iters
	}
	t.Iters = iters
	seconds, err := c.do(ctx, t)
	return seconds / float64(iters) * 1e6, err
}

// do sends one task and waits for its answer. The processes end with the
// contestant, so the read ends too; ctx is looked at between tasks.
func (c *lineClient) do(ctx context.Context, t task) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := c.Tell(t); err != nil {
		return 0, fmt.Errorf("send task: %w", err)
	}
	var answer timing
	err := c.Next(&answer)
	return answer.Seconds, err
}
