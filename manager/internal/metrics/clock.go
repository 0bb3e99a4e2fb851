package metrics

import (
	"sync"
	"time"
)

// Kind is what a trainer's time was spent on.
type Kind int

// The kinds. Together they are all the time from the first StartQuorum to the end of the
// last attempt.
const (
	// Useful: outside the manager, and the step was committed with this replica's gradients.
	Useful Kind = iota
	// Redone: outside the manager, and the attempt was discarded.
	Redone
	// Unused: outside the manager, and the step was committed without this replica's
	// gradients: it was behind, or is a spare.
	Unused
	// Waiting: in StartQuorum and ShouldCommit, and for collectives after the last of them was
	// issued.
	Waiting
	// Healing: in StartQuorum and ShouldCommit, while a state came.
	Healing

	kinds
)

var kindNames = [kinds]string{"useful", "redone", "unused", "waiting", "healing"}

// String is the value of the label.
func (k Kind) String() string { return kindNames[k] }

// clock adds up the time of one trainer. The zero value has not begun.
type clock struct {
	mu      sync.Mutex
	at      time.Time // up to when time is accounted for; zero: the trainer has called nothing
	calls   int       // of the manager, under way
	healing bool
	pending int       // collectives under way
	issued  time.Time // the newest of them

	compute  time.Duration // outside, since the last attempt ended
	attempt  time.Time     // end of the last attempt, or the first call
	spent    [kinds]time.Duration
	newSpell time.Time // when the trainer last came out of the manager

	own, waited time.Duration // of an attempt, as of late
}

// pass accounts for the time up to now.
func (c *clock) pass(now time.Time) {
	if c.at.IsZero() {
		c.at, c.attempt, c.newSpell = now, now, now
		return
	}
	took := max(now.Sub(c.at), 0)
	c.at = now
	switch {
	case c.calls == 0:
		c.compute += took
	case c.healing:
		c.spent[Healing] += took
	default:
		c.spent[Waiting] += took
	}
}

// enter begins a call of the manager, and leave ends it.
func (c *clock) enter(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass(now)
	c.calls++
}

func (c *clock) leave(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass(now)
	c.calls--
	c.newSpell = now
}

// heals says that a state is on its way, or no longer.
func (c *clock) heals(now time.Time, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return // not for the trainer
	}
	c.pass(now)
	c.healing = on
}

// healed says that of the time in the present call so much was for a state.
func (c *clock) healed(now time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return
	}
	c.pass(now)
	took = min(took, c.spent[Waiting])
	c.spent[Waiting] -= took
	c.spent[Healing] += took
}

// issue says that a collective begins.
func (c *clock) issue(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.issued = now
}

// finish says that a collective has ended. Of the last one under way it returns how long
// nothing else was issued. What of that was outside the manager the trainer has waited,
// where it does what most do: it waits for what it has issued.
func (c *clock) finish(now time.Time) (wait time.Duration, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending--; c.pending > 0 {
		return 0, false
	}
	wait = max(now.Sub(c.issued), 0)
	if c.at.IsZero() {
		return wait, true
	}
	c.pass(now)
	if c.calls == 0 {
		began := c.issued
		if c.newSpell.After(began) {
			began = c.newSpell
		}
		outside := min(max(now.Sub(began), 0), c.compute)
		c.compute -= outside
		c.spent[Waiting] += outside
	}
	return wait, true
}

// end ends an attempt: what the trainer computed was of that kind. It returns how long
// the attempt took, from the end of the one before.
func (c *clock) end(now time.Time, kind Kind) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass(now)
	took := now.Sub(c.attempt)
	c.own, c.waited = ofLate(c.own, c.compute), ofLate(c.waited, took-c.compute)
	c.spent[kind] += c.compute
	c.compute, c.healing = 0, false
	c.attempt = now
	return took
}

// ofLate is a mean in which the newest counts for a quarter: what a replica was like ten
// attempts ago is no news.
func ofLate(mean, newest time.Duration) time.Duration {
	if mean == 0 {
		return newest
	}
	return mean + (newest-mean)/4
}

// pace is how long an attempt takes of late: outside the manager, and beside that.
func (c *clock) pace() (own, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own, c.waited
}

// seconds is what was spent on each kind.
func (c *clock) seconds() [kinds]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}
