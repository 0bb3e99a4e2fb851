package checkpoint

import (
	"context"
	"slices"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// marksAtATime is how many chunks' marks one request asks for: enough that the
// way there and back does not matter, few enough that data begin to flow soon.
const marksAtATime = 8

// plan is what a fetch has still to do. One donor, the first, says what every
// chunk must be; chunks that are otherwise are fetched from all. When the first
// donor is given up before it has said all, another one says everything anew: a
// state is that of one donor. Safe for concurrent use.
type plan struct {
	mirror *Mirror
	chunks []*chunk
	queue  chan *chunk   // those to be fetched; each is in it once
	done   chan struct{} // closed when every chunk is there

	mu struct {
		monitor.Monitor // that ranges or donors have changed

		donors []*donor // those that may become the first; the first is first
		meta   map[string]string
		turn   int    // counts first donors; a chunk's want is of one of them
		ranges []span // of chunks whose marks are to be asked for
		told   int    // chunks whose want is of this turn
		turns  []int  // by chunk: the turn that its want is of
		left   int    // chunks that are not there
	}
}

func newPlan(m *Mirror, chunks []*chunk) *plan {
	p := &plan{mirror: m, chunks: chunks, queue: make(chan *chunk, len(chunks)), done: make(chan struct{})}
	p.mu.turns = make([]int, len(chunks))
	for _, c := range chunks {
		c.state = chunkUnknown
	}
	return p
}

// join adds a donor whose manifest fits.
func (p *plan) join(d *donor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.donors = append(p.mu.donors, d)
	if len(p.mu.donors) == 1 && (p.mu.turn == 0 || p.mu.told < len(p.chunks)) {
		p.beginTurnLocked()
	}
}

// resign takes a donor out that was given up.
func (p *plan) resign(d *donor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.mu.donors, d)
	if at < 0 {
		return
	}
	p.mu.donors = slices.Delete(p.mu.donors, at, at+1)
	if at == 0 && p.mu.told < len(p.chunks) && len(p.mu.donors) > 0 {
		p.beginTurnLocked()
	}
}

// beginTurnLocked lets the first of the donors say what every chunk must be.
func (p *plan) beginTurnLocked() {
	p.mu.turn++
	p.mu.meta = p.mu.donors[0].meta
	p.mu.told, p.mu.left, p.mu.ranges = 0, len(p.chunks), nil
	for at := 0; at < len(p.chunks); at += marksAtATime {
		p.mu.ranges = append(p.mu.ranges, span{int64(at), int64(min(at+marksAtATime, len(p.chunks)))})
	}
	for _, c := range p.chunks {
		if c.state == chunkDone {
			c.state = chunkUnknown
		}
	}
	if p.mu.left == 0 {
		close(p.done)
	}
	p.mu.Broadcast()
}

// nextMarks returns a range of chunks whose marks d must say, or false when that
// will never be d's part again.
func (p *plan) nextMarks(ctx context.Context, d *donor) (s span, turn int, ok bool) {
	_ = p.mu.Await(ctx, 0, func() (over bool) { // its error is ctx's end: then ok is false
		if ok = len(p.mu.donors) > 0 && p.mu.donors[0] == d && len(p.mu.ranges) > 0; ok {
			s, p.mu.ranges = p.mu.ranges[0], p.mu.ranges[1:]
			turn = p.mu.turn
		}
		return ok || p.mu.told == len(p.chunks)
	})
	return s, turn, ok
}

// giveMarksBack lets another try ask for them.
func (p *plan) giveMarksBack(s span, turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if turn == p.mu.turn {
		p.mu.ranges = append(p.mu.ranges, s)
		p.mu.Broadcast()
	}
}

// tell compares a chunk with what the first donor has.
func (p *plan) tell(ctx context.Context, i, turn int, want mark) error {
	c := p.chunks[i]
	p.mu.Lock()
	if turn != p.mu.turn || p.mu.turns[i] == turn {
		p.mu.Unlock()
		return nil
	}
	c.want, p.mu.turns[i] = want, turn
	p.mu.told++
	if p.mu.told == len(p.chunks) {
		p.mu.Broadcast()
	}
	if c.state != chunkUnknown { // who has it compares when it comes back
		p.mu.Unlock()
		return nil
	}
	c.state = chunkFlying // this goroutine's, for the comparison
	p.mu.Unlock()
	p.mirror.mark(c)
	p.settle(c)
	return context.Cause(ctx)
}

// settle takes back a chunk that a stream, or tell, has worked on.
func (p *plan) settle(c *chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.turns[c.index] != p.mu.turn:
		c.state = chunkUnknown // the first donor has yet to say what it has
	case c.known && c.have == c.want:
		c.state = chunkDone
		p.mu.left--
		if p.mu.left == 0 {
			close(p.done)
		}
	default:
		c.state = chunkQueued
		p.queue <- c
	}
}

// take returns a chunk to fetch, or nil when none will ever be left or ctx ends.
func (p *plan) take(ctx context.Context) *chunk {
	for ctx.Err() == nil {
		select {
		case c := <-p.queue:
			if p.fly(c) {
				return c
			}
		case <-p.done:
			return nil
		case <-ctx.Done():
		}
	}
	return nil
}

// fly gives a queued chunk to a stream, unless what it must be is not known any
// more.
func (p *plan) fly(c *chunk) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.turns[c.index] != p.mu.turn {
		c.state = chunkUnknown
		return false
	}
	c.state = chunkFlying
	return true
}

// wants says what c must be.
func (p *plan) wants(c *chunk) mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.want
}

// amend takes what d sent, whole, for what c must be: d is the first donor, whose
// word it was, or any will do.
func (p *plan) amend(d *donor, c *chunk, any bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !any && (len(p.mu.donors) == 0 || p.mu.donors[0] != d) {
		return false
	}
	c.want = c.sum.mark()
	return true
}

// result is the metadata of the state, once every chunk is there.
func (p *plan) result() (map[string]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.meta, p.mu.turn > 0 && p.mu.left == 0
}
