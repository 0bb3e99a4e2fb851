package baby

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// A listener takes results out of the ring: a goroutine that waits for an op, for
// a moment, and else a thread of the listener's own, which sleeps until the child
// wakes it. Who looks holds turn, and keeps the child from waking the thread.
type listener struct {
	helping atomic.Bool // a waiting goroutine looks, or is about to
	over    atomic.Bool // the child has ended
	ended   sync.WaitGroup

	turn struct {
		sync.Mutex

		results taker
		rec     record
		result  result
		mad     bool // the child has put in what it must not
	}
}

// listen takes results until the child has ended, and all that it had published.
func (c *child) listen() {
	l := &c.listener
	for {
		l.turn.Lock()
		over := l.over.Load() // before the look: what was published by then is seen
		for c.answerLocked() && !l.helping.Load() {
			runtime.Gosched() // who waits for the result goes first
		}
		if l.turn.mad || over && !l.turn.results.waits() {
			l.turn.Unlock()
			return
		}
		c.restLocked()
	}
}

// restLocked sleeps until there may be something to do, and lets go of turn.
func (c *child) restLocked() {
	l := &c.listener
	t := &l.turn.results
	if c.busy() && t.look(func() bool { return l.helping.Load() }) {
		l.turn.Unlock()
		return
	}
	t.asleep.Store(1)
	if t.waits() || l.over.Load() || c.roomCame() {
		l.turn.Unlock()
		return
	}
	l.turn.Unlock() // nobody unmaps the ring before listen has ended
	sleep(t.asleep, maxSleep)
}

// Help implements pg.Helper. It sleeps, too: to wake the thread first and then
// the one that waits would be twice the work.
func (c *child) Help(ctx context.Context, w *pg.Work) {
	l := &c.listener
	if w.Finished() || !l.helping.CompareAndSwap(false, true) {
		return
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	defer l.helping.Store(false)
	t := &l.turn.results
	if l.over.Load() {
		return // the ring may be unmapped
	}
	t.asleep.Store(0) // the thread may sleep on
	start, turns, nap := time.Now(), time.Duration(1), minNap
	for !w.Finished() && ctx.Err() == nil && !l.over.Load() && !l.turn.mad {
		if c.answerLocked() {
			start, turns = time.Now(), 1
			continue
		}
		if t.glance() {
			continue
		}
		if looked := time.Since(start); looked < helpLookTime {
			if looked > turns*lookTime { // at each look it would cost 25 µs an op
				turns++
				runtime.Gosched() // there may be work in this process, too
			}
			continue
		}
		t.helper.Store(1)
		if !t.waits() && !l.over.Load() && !w.Finished() {
			sleep(t.helper, nap)
			nap = min(2*nap, maxNap)
		}
		t.helper.Store(0)
	}
	t.asleep.Store(1)
	if t.waits() || l.over.Load() || c.roomCame() {
		wake(t.asleep) // from here on it is the thread's
	}
}

// answerLocked handles one record; false if there was none. What the child must
// not send is its end.
func (c *child) answerLocked() bool {
	t := &c.listener.turn
	if t.mad {
		return false
	}
	ok, err := t.results.take(&t.rec)
	if err == nil && ok {
		err = c.resultLocked(&t.rec)
	}
	if err != nil {
		t.mad = true
		c.kill(err.Error()) // read sees its end
		return false
	}
	if !ok {
		c.room()
	}
	return ok
}

func (c *child) resultLocked(rec *record) error {
	if rec.typ != recordDone {
		return fmt.Errorf("record of type %d from the child", rec.typ)
	}
	r := &c.listener.turn.result
	body := cursor{b: rec.body}
	if err := r.read(&body, c.worldSize()); err != nil {
		return err
	}
	if err := body.end(); err != nil {
		return err
	}
	return c.done(r, nil)
}

// endListening returns once all that the child had published has been taken.
func (c *child) endListening() {
	l := &c.listener
	l.over.Store(true)
	l.turn.results.wake()
	l.ended.Wait()
	l.turn.Lock() // who helps leaves
	defer l.turn.Unlock()
	l.turn.results.half = half{}
}

// room goes on with what waited for room in the ring of ops.
func (c *child) room() {
	c.mu.Lock()
	stalled := c.mu.stalled
	c.mu.stalled = false
	c.mu.Unlock()
	if stalled {
		c.issue()
	}
}

// roomCame tells whether what waits for room may go on: the child says so once,
// and may have said it while nobody slept.
func (c *child) roomCame() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.stalled && !c.mu.orphan && c.mu.ops.blocked.Load() == 0
}

// busy tells whether the child has ops to answer.
func (c *child) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.pending) > 0
}

// worldSize is 0 before the child has a group.
func (c *child) worldSize() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.WorldSize()
}
