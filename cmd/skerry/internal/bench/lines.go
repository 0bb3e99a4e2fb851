package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// task is one line to rank 0 of a contestant's processes: run Iters
// all-reduces of Bytes. Bytes 0 means: end.
type task struct {
	Bytes int64 `json:"bytes"`
	Iters int64 `json:"iters"`
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

// lineClient drives processes that read tasks and answer with timings. All
// contestants of allreduce speak it: ours, and the peers' small programs.
type lineClient struct {
	in    io.WriteCloser
	out   *bufio.Scanner
	iters map[int64]int64 // by bytes, found in the first sample
}

func newLineClient(in io.WriteCloser, out io.Reader) *lineClient {
	return &lineClient{in: in, out: bufio.NewScanner(out), iters: map[int64]int64{}}
}

// perOp runs one task and returns microseconds per op.
func (c *lineClient) perOp(ctx context.Context, bytes int64) (float64, error) {
	iters, known := c.iters[bytes]
	if !known {
		once, err := c.do(ctx, task{Bytes: bytes, Iters: 2})
		if err != nil {
			return 0, err
		}
		iters = min(max(int64(taskTime.Seconds()/(once/2+1e-9)), 1), maxIters)
		c.iters[bytes] = iters
	}
	seconds, err := c.do(ctx, task{Bytes: bytes, Iters: iters})
	return seconds / float64(iters) * 1e6, err
}

// do sends one task and waits for its answer. The processes end with the
// contestant, so the read ends too; ctx is looked at between tasks.
func (c *lineClient) do(ctx context.Context, t task) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := json.NewEncoder(c.in).Encode(t); err != nil {
		return 0, fmt.Errorf("send task: %w", err)
	}
	if !c.out.Scan() {
		return 0, fmt.Errorf("the processes ended early: %w", orEOF(c.out.Err()))
	}
	var answer timing
	if err := json.Unmarshal(c.out.Bytes(), &answer); err != nil {
		return 0, fmt.Errorf("read answer %q: %w", c.out.Text(), err)
	}
	return answer.Seconds, nil
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}
