package checkpoint

import (
	"context"
	"sync"
)

// chunk is one unit of a fetch: memory to fill and the checksum to reach. It is
// in one place at a time, the queue or one stream, which owns it.
type chunk struct {
	from, to int64
	want     uint32
	memory   [][]byte // of all bytes, in order

	got int64  // bytes that have arrived, from one donor or several
	sum uint32 // of those
}

// rest is the memory that is not filled yet.
func (c *chunk) rest() [][]byte {
	skip := c.got
	for i, b := range c.memory {
		if skip < int64(len(b)) {
			return append([][]byte{b[skip:]}, c.memory[i+1:]...)
		}
		skip -= int64(len(b))
	}
	return nil
}

// reset forgets what has arrived.
func (c *chunk) reset() { c.got, c.sum = 0, 0 }

// plan is what a fetch has still to do. Safe for concurrent use.
type plan struct {
	*manifest
	memory [][]byte // by entry
	queue  chan *chunk
	done   chan struct{} // closed when every chunk is there

	mu struct {
		sync.Mutex

		left int
	}
}

// newPlan cuts the memory as the manifest says.
func newPlan(m *manifest, memory [][]byte) *plan {
	p := &plan{
		manifest: m, memory: memory,
		queue: make(chan *chunk, len(m.sums)), // so that giving back never blocks
		done:  make(chan struct{}),
	}
	p.mu.left = len(m.sums)
	for i, sum := range m.sums {
		from, to := m.bounds(i)
		p.queue <- &chunk{from: from, to: to, want: sum, memory: pieces(&m.layout, memory, from, to)}
	}
	if p.mu.left == 0 {
		close(p.done)
	}
	return p
}

// take returns a chunk that nobody works on, or nil when none will ever be
// left or ctx ends.
func (p *plan) take(ctx context.Context) *chunk {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	select {
	case c := <-p.queue:
		return c
	case <-p.done:
		return nil
	case <-ctx.Done():
		return nil
	}
}

// giveBack lets others finish c, from where it stands.
func (p *plan) giveBack(c *chunk) { p.queue <- c }

// finish counts a chunk whose checksum was right.
func (p *plan) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.left--
	if p.mu.left == 0 {
		close(p.done)
	}
}

// left is how many chunks are not there yet.
func (p *plan) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.left
}
