package baby

import (
	"fmt"
	"iter"
	"time"
)

const (
	// pingEvery is how often a child with ops in flight is asked for a sign of life.
	pingEvery = 100 * time.Millisecond
	// silentAtDeadline is the silence, over several pings, after which a child is
	// given no Slack at an op's deadline. On a loaded host one that lives may owe an
	// answer for a while.
	silentAtDeadline = 350 * time.Millisecond
)

// A watch is the alarm clock of a child with ops in flight. Its child's lock
// guards it. It rests while there is nothing to watch.
type watch struct {
	timer   *time.Timer
	armed   bool
	next    time.Time // when the timer fires
	end     time.Time // when what is pending must have ended, or zero
	pinged  time.Time // the last ping
	asked   time.Time // the first ping since the child said something, or zero
	stopped bool
}

// heard notes a sign of life.
func (w *watch) heard() { w.asked = time.Time{} }

// silent is for how long the child has owed us an answer.
func (w *watch) silent(now time.Time) time.Duration {
	if w.asked.IsZero() {
		return 0
	}
	return now.Sub(w.asked)
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
		w.heard()
		w.by(now.Add(pingEvery))
	}
	w.by(deadline)
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
	if now.Sub(w.next) > pingEvery/2 && !w.asked.IsZero() {
		w.asked = now // we were not run ourselves: no time to judge
	}
	w.armed = false
	why := c.overdueLocked(now)
	if c.mu.left > 0 || c.mu.configuring && !w.end.IsZero() {
		if now.Sub(w.pinged) >= pingEvery {
			c.tellLocked(message(msgPing), nil)
			w.pinged = now
			if w.asked.IsZero() {
				w.asked = now
			}
		}
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
	w := &c.mu.watch
	earlier(w.pinged.Add(pingEvery))
	earlier(w.end)
	if !w.asked.IsZero() {
		earlier(w.asked.Add(c.opt.Silence))
	}
	for p := range c.opsLocked() {
		earlier(p.deadline)
		earlier(p.deadline.Add(c.opt.slackTime()))
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

// overdueLocked says what the child failed to do in time, or "". One that has
// also been silent is given no slack.
func (c *child) overdueLocked(now time.Time) string {
	w := &c.mu.watch
	if !w.end.IsZero() && !now.Before(w.end) {
		w.end = time.Time{}
		if len(c.mu.pending) > 0 || c.mu.configuring {
			return fmt.Sprintf("%d ops had not ended %v after the abort", len(c.mu.pending), c.opt.slackTime())
		}
	}
	silent, slack := w.silent(now), c.opt.slackTime()
	for p := range c.opsLocked() {
		switch {
		case now.Before(p.deadline):
		case !now.Before(p.deadline.Add(slack)):
			return fmt.Sprintf("%v had not ended %v after its deadline", p.op.Kind, slack)
		case silent >= silentAtDeadline+slack-Slack:
			return fmt.Sprintf("%v had not ended by its deadline, and it was silent for %v", p.op.Kind, silent.Round(time.Millisecond))
		}
	}
	if silent >= c.opt.Silence && len(c.mu.pending) > 0 {
		return fmt.Sprintf("it was silent for %v", silent.Round(time.Millisecond))
	}
	return ""
}
