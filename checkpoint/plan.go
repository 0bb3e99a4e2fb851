package checkpoint

import (
	"context"
	"slices"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// marksAtATime is how many chunks' marks one request asks for: enough that the
// way there and back does not matter, few enough that data begin to flow soon.
const marksAtATime = 8

// probes are the chunks, spread over a state of at least twice as many, that are
// compared first: where all of them differ, so will the others.
const probes = 8

// plan is what a fetch has still to do. One donor, the first, says what every
// chunk must be; chunks that are otherwise are fetched from all. When the first
// donor is given up before it has said all, another one says everything anew: a
// state is that of one donor.
//
// Where all probes differ, comparing is a waste of both sides' memory speed, and the
// plan is blind: the first donor's streams fetch, from the end on, chunks of which it has
// said nothing, and the mark that comes with the bytes is its word. From the beginning
// on it is asked for marks then for the other donors' sake alone. Safe for concurrent use.
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
		same   int    // chunks of this turn that needed not be fetched
		differ int    // and those that did, of the compared ones
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
	p.mu.Broadcast()
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
	p.mu.told, p.mu.left, p.mu.same, p.mu.differ = 0, len(p.chunks), 0, 0
	p.mu.ranges = rangesOf(int64(len(p.chunks)))
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

// rangesOf cuts n chunks into what one request for marks asks for: the probes, then the
// rest in order.
func rangesOf(n int64) []span {
	var first, rest []span
	from := int64(0)
	cut := func(to int64) { // [from, to)
		for ; from < to; from = min(from+marksAtATime, to) {
			rest = append(rest, span{from, min(from+marksAtATime, to)})
		}
	}
	if n >= 2*probes {
		for k := range int64(probes) {
			at := k * n / probes
			cut(at)
			first = append(first, span{at, at + 1})
			from = at + 1
		}
	}
	cut(n)
	return append(first, rest...)
}

// blindLocked: comparing has been a waste so far, and will be.
func (p *plan) blindLocked() bool { return p.mu.differ >= probes && p.mu.same == 0 }

// nextMarks returns a range of chunks whose marks d must say, or false when that
// will never be d's part again.
func (p *plan) nextMarks(ctx context.Context, d *donor) (s span, turn int, ok bool) {
	_ = p.mu.Await(ctx, 0, func() (over bool) { // its error is ctx's end: then ok is false
		ok = p.firstLocked(d) && len(p.mu.ranges) > 0 && (!p.blindLocked() || len(p.mu.donors) > 1)
		if ok {
			s, p.mu.ranges = p.mu.ranges[0], p.mu.ranges[1:]
			turn = p.mu.turn
		}
		return ok || p.mu.told == len(p.chunks)
	})
	return s, turn, ok
}

func (p *plan) firstLocked(d *donor) bool { return len(p.mu.donors) > 0 && p.mu.donors[0] == d }

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
	p.tellLocked(c, want)
	if c.state != chunkUnknown { // who has it compares when it comes back
		p.mu.Unlock()
		return nil
	}
	c.state = chunkFlying                     // this goroutine's, for the comparison
	compare := !p.blindLocked() && c.got == 0 // else a part of it has come, and the rest is to
	p.mu.Unlock()
	if compare {
		p.count(p.mirror.mark(c) == want)
	}
	p.settle(c)
	return context.Cause(ctx)
}

// tellLocked notes what the first donor has as c.
func (p *plan) tellLocked(c *chunk, want mark) {
	c.want, p.mu.turns[c.index] = want, p.mu.turn
	p.mu.told++
	if p.mu.told == len(p.chunks) {
		p.mu.Broadcast()
	}
}

// count notes what a comparison has shown.
func (p *plan) count(same bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if same {
		p.mu.same++
		return
	}
	if p.mu.differ++; p.mu.differ == probes {
		p.mu.Broadcast() // it may be blind from now on
	}
}

// settle takes back a chunk that a stream, or tell, has worked on.
func (p *plan) settle(c *chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.turns[c.index] != p.mu.turn:
		c.state = chunkUnknown // the first donor has yet to say what it has
		if c.blind == p.mu.turn {
			p.mu.ranges = slices.Insert(p.mu.ranges, 0, span{int64(c.index), int64(c.index) + 1})
			p.mu.Broadcast()
		}
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

// take returns a chunk to fetch from d, or nil when none will ever be left or ctx ends.
func (p *plan) take(ctx context.Context, d *donor) *chunk {
	for ctx.Err() == nil {
		c, changed := p.takeBlind(d)
		if c != nil {
			return c
		}
		select {
		case c := <-p.queue:
			if p.fly(c) {
				return c
			}
		case <-changed:
		case <-p.done:
			return nil
		case <-ctx.Done():
		}
	}
	return nil
}

// takeBlind returns a chunk of which d has not said what it must be, if the plan is blind
// and d is the first donor. Otherwise changed is closed when that may be so.
func (p *plan) takeBlind(d *donor) (_ *chunk, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mu.ranges)
	if n == 0 || !p.blindLocked() || !p.firstLocked(d) {
		return nil, p.mu.Changed()
	}
	last := &p.mu.ranges[n-1]
	c := p.chunks[last.to-1]
	if c.state != chunkUnknown || c.known || c.got > 0 { // some of the state is there after all
		p.mu.same++
		p.mu.Broadcast()
		return nil, p.mu.Changed()
	}
	if last.to--; last.to == last.from {
		p.mu.ranges = p.mu.ranges[:n-1]
	}
	c.state, c.blind = chunkFlying, p.mu.turn
	return c, nil
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
	c.state, c.blind = chunkFlying, 0
	return true
}

// wants says what c must be. Where nobody has said so in this turn, it is what d, which
// has sent it whole, said of it: that is the first donor's word, or will be compared with
// it.
func (p *plan) wants(d *donor, c *chunk, said mark) mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.blind == 0 || p.mu.turns[c.index] == p.mu.turn {
		return c.want
	}
	if c.blind == p.mu.turn && p.firstLocked(d) {
		p.tellLocked(c, said)
	}
	return said
}

// amend takes what d sent, whole, for what c must be: d is the first donor, whose
// word it was, or any will do.
func (p *plan) amend(d *donor, c *chunk, any bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !any && !p.firstLocked(d) {
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
