// Package budget says how often a replica may be started again, and after which pause. It is
// pure: it has no clock, and is told how long each life was.
package budget

import (
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// The pauses before a replica is started again: each is twice the one before.
const (
	FirstPause = 100 * time.Millisecond // after a life that worked, and the first of all
	mostPause  = 30 * time.Second
)

// settled is how long a life must be to count as one that worked, where no lighthouse says
// whether it did.
const settled = time.Minute

// Rule is what a replica may cost.
type Rule struct {
	// Most is how many crashes a replica may have in a row.
	Most int
	// RefillSteps gives one crash back for so many committed steps; 0: none.
	RefillSteps int64
	// RefillAfter gives one back for so much life, of a replica that no lighthouse knows; 0:
	// none.
	RefillAfter time.Duration
}

// Life is what there is to know of one start of a replica when it has ended.
type Life struct {
	Ran   time.Duration
	Known bool  // a lighthouse had it as a participant
	Steps int64 // that it committed, if it was known
}

// Budget counts the crashes of one replica. It is owned by one goroutine.
type Budget struct {
	rule  Rule
	spent int
	pause backoff.Backoff
	steps int64         // towards the next refill
	ran   time.Duration // the same
}

// New is a budget of which nothing is spent.
func New(r Rule) *Budget {
	return &Budget{rule: r, pause: backoff.Backoff{First: FirstPause, Most: mostPause}}
}

// Crash counts the crash that ended a life. It returns how long to wait before the next
// start, or false if there is to be none.
func (b *Budget) Crash(l Life) (pause time.Duration, again bool) {
	b.refill(l)
	if b.spent >= b.rule.Most {
		return 0, false
	}
	b.spent++
	if l.Known && l.Steps > 0 || !l.Known && l.Ran >= settled {
		b.pause.Reset()
	}
	return b.pause.Next(), true
}

// Spent is how many crashes count at the moment.
func (b *Budget) Spent() int { return b.spent }

// refill gives back what a life has earned.
func (b *Budget) refill(l Life) {
	if l.Known {
		b.steps += l.Steps
	} else {
		b.ran += l.Ran
	}
	if every := b.rule.RefillSteps; every > 0 {
		b.spent -= int(min(int64(b.spent), b.steps/every))
		b.steps %= every
	}
	if every := b.rule.RefillAfter; every > 0 {
		b.spent -= int(min(time.Duration(b.spent), b.ran/every))
		b.ran %= every
	}
}
