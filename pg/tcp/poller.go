package tcp

import (
	"context"
	"runtime"
	"time"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
)

// watched is a lane that the poller or the death watch holds a reference to.
type watched struct {
	l *link
	n *lane
}

// unwatch lets go of the lanes. The caller does not hold Backend.mu.
func unwatch(lanes []watched) {
	for _, w := range lanes {
		w.n.unref()
	}
}

// patience is how long a goroutine looks that sees nothing.
type patience struct {
	looks     int           // between two looks at the clock
	time      time.Duration // about what a wake-up costs both sides, so that at worst twice the least is lost
	crowdTime time.Duration // where ranks fill the processors: looking yields to the others, whose turns are longer than a wake-up
}

var usualPatience = patience{looks: 16, time: 15 * time.Microsecond, crowdTime: 60 * time.Microsecond}

// polled is what a poller looks after: a Backend, but in the test that takes the
// poller through every interleaving.
type polled interface {
	watchLanes() []watched
	pull(l *link)
	pushClass(l *link, class int)
}

// ringer is what wakes a poller's goroutine: a bell. A ring that comes before wait
// is not lost.
type ringer interface {
	wait() error
	ring()
}

// poller looks for what peers write into shared memory. A goroutine that waits
// for an op does it, as long as there is much to see; else the poller's own, which
// sleeps until a peer rings. Peers ring only when the lanes say so: when ops are
// pending and no goroutine looks. With no op pending there is nothing to take.
//
// # States
//
// Of one side, as its peers see it in asleep, a number that only rises:
//
//	even       do not ring: a goroutine looks, or no op is pending
//	odd, v     armed: ring, once (lane.rung becomes v), for whatever is published
//
//	             rest, leave: pending > 0, no helper
//	   ┌──────┐ ───────────────────────────────────▶ ┌───────┐
//	   │ even │                                      │ armed │ ─▶ a peer rings: rung == asleep
//	   └──────┘ ◀─────────────────────────────────── └───────┘
//	             watch begins: a ring was taken, or a goroutine helps
//
// Who looks holds mu: the poller's goroutine (after a ring), a helper (helping is
// true from before it waits for mu until it has stopped to look), and for a moment
// who has submitted an op (rest).
//
// # Rules, and what each prevents
//
//  1. Only restLocked arms, after helping was seen false, and watch ends with the
//     peers told not to ring. A ring that comes while helping is true is dropped: the
//     helper looks. So a value that the peers could answer is never shown while
//     rings are dropped; else it would outlive its ring, and each is answered once.
//  2. Who has armed looks at all lanes once more. A record is published first and
//     asleep is read then, so that either the peer sees the value, or we the record.
//  3. Who finds mu taken leaves the looking to the holder, who, when it has let go,
//     looks at pending and helping once more. Before that both were set.
//  4. Who finds armed true leaves it to the ring: it comes, or what it would come
//     for was seen by rule 2, or a goroutine that disarms is about to look.
//  5. A helper disarms when it begins to look, so a ring that was dropped
//     while it waited for mu is of a value that is over.
//
// poller_model_test.go goes through every interleaving of two sides, and finds each of
// these rules broken when it is.
type poller struct {
	b        polled
	bell     ringer
	pending  *step.Int64  // ops
	lanesGen *step.Uint64 // rises when a link gets or loses its lane
	patience patience
	hook     step.Hook

	helping step.Bool // a waiting goroutine looks, or is about to
	armed   step.Bool // peers ring

	mu struct { // held by the goroutine that looks
		step.Mutex

		lanes  []watched
		seen   uint64 // lanesGen when lanes was filled
		asleep uint32
		crowd  bool // ranks of this host on every processor: what else a rank does finds none free
		closed bool
	}
}

func newPoller(b polled, bell ringer, pending *step.Int64, lanesGen *step.Uint64, h step.Hook) *poller {
	p := &poller{b: b, bell: bell, pending: pending, lanesGen: lanesGen, patience: usualPatience, hook: h}
	p.helping.Watch(h)
	p.armed.Watch(h)
	p.mu.Watch(h)
	return p
}

// run is the poller's own goroutine.
func (p *poller) run() {
	for {
		if err := p.bell.wait(); err != nil { // closed
			p.close()
			return
		}
		if p.helping.Load() {
			continue // rule 5
		}
		p.mu.Lock()
		p.watch(nil)
		p.leave()
	}
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	unwatch(p.mu.lanes)
	p.mu.lanes, p.mu.closed = nil, true
}

// Help implements pg.Helper.
func (b *Backend) Help(ctx context.Context, w *pg.Work) {
	if b.poller != nil && !w.Finished() {
		b.poller.help(func() bool { return w.Finished() || ctx.Err() != nil })
	}
}

// help looks until over is true, or nothing came for a moment; not at all if
// another goroutine helps.
func (p *poller) help(over func() bool) {
	if !p.helping.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	p.watch(over)
	p.helpedLocked()
}

// helpedLocked is the end of a help: of what rings from now on, the poller's
// goroutine takes notice again. It lets go of mu.
func (p *poller) helpedLocked() {
	p.helping.Store(false)
	p.leave()
}

// watch looks until nothing came for a moment, or over is true; without over,
// until a goroutine helps. The caller holds mu. It ends with the peers told not to
// ring (rule 1).
func (p *poller) watch(over func() bool) {
	p.tellLocked(false)
	idle := time.Time{}
	for {
		step.Round(p.hook)
		switch {
		case over != nil:
			if over() {
				return
			}
		case p.helping.Load():
			return
		}
		if p.lookLocked() {
			idle = time.Time{}
			if over == nil {
				runtime.Gosched() // who waits for what was done goes first
			}
			continue
		}
		if idle.IsZero() {
			idle = time.Now()
		}
		if !p.spinLocked(idle) {
			return
		}
	}
}

// leave lets go of mu. If ops are pending, and nobody is about to help, peers ring
// from now on.
func (p *poller) leave() {
	for {
		step.Round(p.hook)
		p.restLocked()
		p.mu.Unlock()
		// Rule 3: an op that came before we let go, and found mu taken, relies on us.
		if p.armed.Load() || p.helping.Load() || p.pending.Load() == 0 || !p.mu.TryLock() {
			return
		}
	}
}

// rest makes sure that a goroutine looks for what an op needs that was just
// submitted (rules 3 and 4).
func (p *poller) rest() {
	if p == nil || p.armed.Load() || p.helping.Load() || !p.mu.TryLock() {
		return
	}
	p.leave()
}

// restLooks is how often who leaves looks again before the poller's goroutine is
// to do it: Submit must not bring forward all of a long op.
const restLooks = 2

// restLocked tells the peers to ring, if need be, and takes what they wrote before
// they could see it (rules 1 and 2).
func (p *poller) restLocked() {
	for try := 0; p.pending.Load() > 0 && !p.helping.Load(); try++ {
		p.refreshLocked()
		p.tellLocked(true)
		if !p.pendingLocked() {
			return
		}
		if try == restLooks {
			p.bell.ring()
			return
		}
		p.tellLocked(false)
		p.lookLocked()
	}
}

// spinLocked passes a moment; false if there were enough of them.
func (p *poller) spinLocked(idle time.Time) bool {
	if len(p.mu.lanes) == 0 {
		return false
	}
	for range p.patience.looks {
		if p.pendingLocked() {
			return true
		}
	}
	if p.mu.crowd {
		// No processor is ours alone: the one that we wait for may need it.
		futex.Yield()
		return p.pendingLocked() || time.Since(idle) < p.patience.crowdTime
	}
	return time.Since(idle) < p.patience.time
}

// lookLocked pulls and pushes what can be; false if that is nothing.
func (p *poller) lookLocked() bool {
	p.refreshLocked()
	any := false
	for _, w := range p.mu.lanes {
		for class := range w.n.channels {
			c := &w.n.channels[class]
			if c.recv.Pending() {
				any = true
				p.b.pull(w.l)
			}
			if c.send.RoomCame() {
				any = true
				p.b.pushClass(w.l, class)
			}
		}
	}
	return any
}

func (p *poller) pendingLocked() bool {
	for _, w := range p.mu.lanes {
		if w.n.pending() {
			return true
		}
	}
	return p.lanesGen.Load() != p.mu.seen && !p.mu.closed
}

// tellLocked shows all peers whether to ring.
func (p *poller) tellLocked(ring bool) {
	if p.armed.Load() == ring {
		return
	}
	p.mu.asleep++
	for _, w := range p.mu.lanes {
		w.n.asleep().Store(p.mu.asleep)
	}
	p.armed.Store(ring)
}

// refreshLocked takes over the lanes that there are now.
func (p *poller) refreshLocked() {
	gen := p.lanesGen.Load()
	if gen == p.mu.seen || p.mu.closed {
		return
	}
	old, fresh := p.mu.lanes, p.b.watchLanes()
	p.mu.lanes, p.mu.seen = fresh, gen
	p.mu.crowd = len(fresh)+1 >= runtime.NumCPU()
	for _, w := range fresh {
		w.n.asleep().Store(p.mu.asleep)
	}
	unwatch(old)
}

// watchLanes is the lanes that there are, with a reference to each.
func (b *Backend) watchLanes() []watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes := make([]watched, 0, len(b.mu.links))
	for l := range b.mu.links {
		if l.lane != nil {
			lanes = append(lanes, watched{l, l.lane.ref()})
		}
	}
	return lanes
}

// lanesChanged lets the poller know, and the death watch.
func (b *Backend) lanesChanged() {
	b.lanesGen.Add(1)
	b.deathWatch.poke()
	if b.bell != nil {
		b.bell.ring()
	}
}
