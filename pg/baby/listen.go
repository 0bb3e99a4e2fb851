package baby

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
)

// A listener takes results out of the ring: a goroutine that waits for an op, for
// a while, and else a thread of the listener's own. Who looks holds turn. Each has
// a word in shared memory, 1 while it sleeps on it: asleep is the thread's, helper the
// goroutine's. The child, which has published something, makes both 0 and wakes those
// that were not.
//
// # States
//
//	            asleep  turn
//	looks         0     the thread's; it takes what is there
//	sleeps        1     free; any record, room that was waited for, or the end wakes it
//	is helped     0     the helper's; the thread may sleep on, for no wake-up is its
//
//	looks ─▶ sleeps: rest shows 1, and then finds nothing
//	sleeps ─▶ looks: wake, by the child, end, or a helper that leaves
//	sleeps, looks ─▶ is helped: help has the turn, and shows 0
//	is helped ─▶ sleeps, looks: it shows 1, looks once more, and lets go
//
// # Rules, and what each prevents
//
//  1. Who is about to sleep shows 1 first, and then looks: at the ring, at room that
//     came, whether it is over. The child publishes first, and makes the word 0 then.
//  2. A helper shows the thread's 1 again when it leaves, and looks after that: what
//     came before it did so woke nobody.
//  3. An op that completes without a record (it was aborted, its result came over the
//     socket) wakes the helper: it may be its op.
//  4. A giver without room shows that it is blocked, and looks again. The child releases
//     a record first, and then wakes a giver that is blocked. Before which release it
//     found no room is remembered by the parent, so that rule 1 can look there.
//  5. What was published before the end is taken: over is read before the last look.
//
// No sleep is longer than maxSleep or maxNap, whatever a child out of its mind makes
// of the words; ring_model_test.go shows that a sound one needs neither.
type listener struct {
	helping step.Bool // a waiting goroutine looks, or is about to
	over    step.Bool // the child has ended
	ended   sync.WaitGroup
	hook    step.Hook // tests

	turn struct {
		step.Mutex

		results taker
		rec     record
		result  result
		mad     bool // the child has put in what it must not
	}
}

// answerer is what a listener takes results for: a child, but in the test that takes
// the listener through every interleaving. It is called with turn held.
type answerer interface {
	answerLocked() bool // handles one record; false if there was none
	roomCame() bool
	busy() bool
}

// listen takes results until the child has ended, and all that it had published.
func (l *listener) listen(a answerer) {
	for {
		step.Round(l.hook)
		l.turn.Lock()
		over := l.over.Load() // rule 5: before the look
		for a.answerLocked() && !l.helping.Load() {
			runtime.Gosched() // who waits for the result goes first
		}
		if l.turn.mad || over && !l.turn.results.Waits() {
			l.turn.Unlock()
			return
		}
		l.restLocked(a)
	}
}

// restLocked sleeps until there may be something to do, and lets go of turn.
func (l *listener) restLocked(a answerer) {
	t := &l.turn.results
	if a.busy() && t.look(l.helping.Load) {
		l.turn.Unlock()
		return
	}
	t.mine.Asleep.Store(1)
	if t.Waits() || l.over.Load() || a.roomCame() { // rule 1
		l.turn.Unlock()
		return
	}
	l.turn.Unlock() // the ring is unmapped only when listen has ended
	futex.Sleep(t.mine.Asleep, maxSleep)
}

// Help implements pg.Helper. It sleeps, too: to wake the thread first and then
// the one that waits would be twice the work.
func (c *child) Help(ctx context.Context, w *pg.Work) {
	if !w.Finished() {
		c.listener.help(c, func() bool { return w.Finished() || ctx.Err() != nil })
	}
}

// help takes results until done says so, or the child has ended; not at all if
// another goroutine helps.
func (l *listener) help(a answerer, done func() bool) {
	if !l.helping.CompareAndSwap(false, true) {
		return
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	defer l.helping.Store(false)
	t := &l.turn.results
	if l.over.Load() {
		return // the ring may be unmapped
	}
	t.mine.Asleep.Store(0) // the thread may sleep on
	start, turns, nap := time.Now(), time.Duration(1), minNap
	for {
		step.Round(l.hook)
		if done() || l.over.Load() || l.turn.mad {
			break
		}
		if a.answerLocked() {
			start, turns = time.Now(), 1
			continue
		}
		if t.glance() {
			continue
		}
		if looked := time.Since(start); looked < helpLookTime && !t.hurries {
			if looked > turns*lookTime { // at each look it would cost 25 µs an op
				turns++
				runtime.Gosched() // there may be work in this process, too
			}
			continue
		}
		t.mine.helper.Store(1)
		if !t.Waits() && !l.over.Load() && !a.roomCame() && !done() { // rule 1
			futex.Sleep(t.mine.helper, nap)
			nap = min(2*nap, maxNap)
		}
		t.mine.helper.Store(0)
	}
	t.mine.Asleep.Store(1)
	if t.Waits() || l.over.Load() || a.roomCame() { // rule 2
		futex.Wake(t.mine.Asleep) // from here on it is the thread's
	}
}

// completed is told that an op is complete, and where a helper may sleep (rule 3).
func (l *listener) completed(helper step.Word32) {
	if l.helping.Load() && helper.Addr() != nil && helper.Load() != 0 {
		futex.Wake(helper)
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

// end returns once all that the child had published has been taken.
func (l *listener) end() {
	l.over.Store(true)
	l.turn.results.mine.wake()
	l.ended.Wait()
	l.turn.Lock() // who helps leaves
	defer l.turn.Unlock()
	l.turn.results.Consumer, l.turn.results.mine, l.turn.results.peer = shmring.Consumer{}, side{}, side{}
}

// room goes on with what waited for room in the ring of ops.
func (c *child) room() {
	c.mu.Lock()
	came := !c.mu.orphan && c.mu.ops.RoomCame()
	if came {
		c.mu.ops.Rest() // issue asks again, if there is something to give
	}
	c.mu.Unlock()
	if came {
		c.issue()
	}
}

// roomCame tells whether what waits for room in the ring of ops may go on.
func (c *child) roomCame() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mu.orphan && c.mu.ops.RoomCame()
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
