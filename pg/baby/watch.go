package baby

import (
	"fmt"
	"iter"
	"time"
)

// pingEvery is how often a child with ops in flight is asked for a sign of life.
const pingEvery = 250 * time.Millisecond

// A watch is the alarm clock of a child with ops in flight. Its child's lock
// guards it. It rests while there is nothing to watch.
type watch struct {
	timer   *time.Timer
	armed   bool
	next    time.Time // when the timer fires
	end     time.Time // when what is pending must have ended, or zero
	heard   bool      // the child said something since the last tick
	missed  int       // ticks in a row without
	stopped bool
}

func (w *watch) init(tick func()) {
	w.timer = time.AfterFunc(time.Hour, tick)
	w.timer.Stop()
}

// by sees to it that there is a tick at t, or before.
func (w *watch) by(t time.Time) {
	if w.stopped || (w.armed && !t.Before(w.next)) {
		return
	}
	w.armed, w.next = true, t
	w.timer.Reset(time.Until(t))
}

// began notes an op with that deadline.
func (w *watch) began(now, deadline time.Time) {
	if !w.armed {
		w.heard, w.missed = true, 0
		w.by(now.Add(pingEvery))
	}
	if d := deadline.Add(Slack); d.Before(w.next) {
		w.by(d)
	}
}

// endBy says when all pending ops must have ended.
func (w *watch) endBy(t time.Time) {
	w.end = t
	w.by(t)
}

func (w *watch) stop() {
	w.stopped = true
	w.timer.Stop()
}

// tick kills a child that is late, and asks a silent one whether it lives.
func (c *child) tick() {
	now := time.Now()
	c.mu.Lock()
	w := &c.mu.watch
	if w.stopped {
		c.mu.Unlock()
		return
	}
	late := now.Sub(w.next) > pingEvery/2 // we were not run ourselves: no time to judge
	w.armed = false
	why := c.overdueLocked(now, late)
	if c.mu.left > 0 || c.mu.configuring && !w.end.IsZero() {
		c.tellLocked(message(msgPing), nil)
		w.by(c.nextTickLocked(now))
	}
	c.mu.Unlock()
	if why != "" {
		c.kill(why)
	}
}

// nextTickLocked is when the next op is overdue, or the next ping due.
func (c *child) nextTickLocked(now time.Time) time.Time {
	next := now.Add(pingEvery)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	earlier(c.mu.watch.end)
	for p := range c.opsLocked() {
		earlier(p.deadline.Add(Slack))
	}
	return next
}

// opsLocked is what is pending, and what is queued.
func (c *child) opsLocked() iter.Seq[*pending] {
	return func(yield func(*pending) bool) {
		for _, p := range c.mu.pending {
			if !p.ending && !yield(p) {
				return
			}
		}
		for _, p := range c.mu.queue.left() {
			if !yield(p) {
				return
			}
		}
	}
}

// overdueLocked says what the child failed to do in time, or "".
func (c *child) overdueLocked(now time.Time, late bool) string {
	w := &c.mu.watch
	if !w.end.IsZero() && !now.Before(w.end) {
		w.end = time.Time{}
		if len(c.mu.pending) > 0 || c.mu.configuring {
			return fmt.Sprintf("%d ops had not ended %v after the abort", len(c.mu.pending), Slack)
		}
	}
	for p := range c.opsLocked() {
		if now.After(p.deadline.Add(Slack)) {
			return fmt.Sprintf("a %v had not ended %v after its deadline", p.op.Kind, Slack)
		}
	}
	switch {
	case w.heard:
		w.heard, w.missed = false, 0
	case !late && len(c.mu.pending) > 0:
		w.missed++
	}
	if limit := int(c.opt.Silence / pingEvery); w.missed > max(limit, 1) {
		return fmt.Sprintf("it was silent for %v", c.opt.Silence)
	}
	return ""
}
