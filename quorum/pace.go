package quorum

import (
	"slices"
	"time"
)

const (
	// stuckSteps is how many median steps without progress are stuck, if they are
	// longer than Config.StuckAfter: an evaluation or a checkpoint between two steps may take as
	// long as several of them.
	stuckSteps = 10
	// paceSteps is how many of the newest steps the median is of, and paceLeast
	// how many there must be. Steps that become longer move it after eight of them; a first one
	// that takes far longer than those that follow does not.
	paceSteps = 15
	paceLeast = 5
)

// pace is how long steps take, as their commits show: where one takes minutes, StuckAfter
// alone would call its members stuck in the middle of it (§6, L3). The zero value knows
// nothing. It is copied by value.
type pace struct {
	highest int64                    // the highest step that a beat told
	at      time.Time                // when it was reached; zero: not seen
	took    [paceSteps]time.Duration // a ring: the n-th stands at n modulo its length
	n       int                      // steps ever timed
	middle  time.Duration            // their median; 0: too few are known
}

// step notes that a beat tells a step. The first member to tell it counts. Where the highest
// position fell (C4), nothing is timed until the job has passed it again.
func (p *pace) step(now time.Time, step int64) {
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

// doubt takes out what this process slept through.
func (p *pace) doubt(now time.Time, late time.Duration) {
	if !p.at.IsZero() {
		p.at = earlier(now, p.at.Add(late))
	}
}

// median is that of the newest steps.
func (p *pace) median() time.Duration {
	// Until then StuckAfter alone holds.
	if p.n < paceLeast {
		return 0
	}
	took := slices.Clone(p.took[:min(p.n, paceSteps)])
	// The median, not the mean: one step that was held up for minutes would hide a hang.
	slices.Sort(took)
	return took[len(took)/2]
}

// stuckAfter is how long a live replica may make no progress; 0: for ever.
func (m *Machine) stuckAfter() time.Duration {
	if m.config.StuckAfter == 0 {
		return 0
	}
	// It only grows by this: a fast job may compute for StuckAfter all the same.
	return max(m.config.StuckAfter, stuckSteps*m.pace.middle)
}
