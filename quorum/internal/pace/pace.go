// Package pace finds how long a job's steps take, from the steps that its members' beats tell:
// where one takes minutes, Config.StuckAfter alone would call its members stuck in the middle
// of it (PROTOCOL §6, L3).
package pace

import (
	"slices"
	"time"
)

const (
	// paceSteps is how many of the newest steps the median is of, and paceLeast
	// how many there must be. Steps that become longer move it after eight of them; a first one
	// that takes far longer than those that follow does not.
	paceSteps = 15
	paceLeast = 5
)

// Pace is how long steps take, as their commits show. The zero value knows nothing. It is
// copied by value.
type Pace struct {
	highest int64                    // the highest step that a beat told
	at      time.Time                // when it was reached; zero: not seen
	took    [paceSteps]time.Duration // a ring: the n-th stands at n modulo its length
	n       int                      // steps ever timed
	middle  time.Duration            // their median; 0: too few are known
}

// Step notes that a beat tells a step. The first member to tell it counts. Where the highest
// position fell (C4), nothing is timed until the job has passed it again.
func (p *Pace) Step(now time.Time, step int64) {
	if step <= p.highest {
		return
	}
	// Between two beats a fast job commits several: each took its part. Since when the first one
	// that is heard was under way is not known (a new leader), so it is not timed.
	if steps := step - p.highest; !p.at.IsZero() {
		p.took[p.n%paceSteps] = now.Sub(p.at) / time.Duration(steps)
		p.n++
		p.middle = p.median()
	}
	p.highest, p.at = step, now
}

// Doubt takes out what this process slept through.
func (p *Pace) Doubt(now time.Time, late time.Duration) {
	if !p.at.IsZero() {
		if p.at = p.at.Add(late); p.at.After(now) {
			p.at = now
		}
	}
}

// Reached is when the highest step was heard of; zero: none was.
func (p *Pace) Reached() time.Time { return p.at }

// Middle is the median of late; 0: too few steps are known.
func (p *Pace) Middle() time.Duration { return p.middle }

// median is that of the newest steps.
func (p *Pace) median() time.Duration {
	// Until then StuckAfter alone holds.
	if p.n < paceLeast {
		return 0
	}
	took := slices.Clone(p.took[:min(p.n, paceSteps)])
	// The median, not the mean: one step that was held up for minutes would hide a hang.
	slices.Sort(took)
	return took[len(took)/2]
}
