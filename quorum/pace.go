package quorum

import (
	"slices"
	"time"
)

const (
	// stuckSteps is how many median steps without progress are stuck, if they are
	// longer than Config.StuckAfter.
	stuckSteps = 10
	// paceSteps is how many of the newest steps the median is of, and paceLeast
	// how many there must be.
	paceSteps = 15
	paceLeast = 5
)

// pace is how long steps take, as their commits show: where one takes minutes, StuckAfter
// alone would call its members stuck in the middle of it (§6, L3). The zero value knows
// nothing. It is copied by value.
type pace struct {
	highest int64
	at      time.Time // when it was reached; zero: not seen
	took    [paceSteps]time.Duration
	n       int           // steps ever timed
	middle  time.Duration // their median; 0: too few are known
}

// step notes that somebody has committed a step.
func (p *pace) step(now time.Time, step int64) {
	if step <= p.highest {
		return
	}
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
	if p.n < paceLeast {
		return 0
	}
	took := slices.Clone(p.took[:min(p.n, paceSteps)])
	slices.Sort(took)
	return took[len(took)/2]
}

// stuckAfter is how long a live replica may make no progress; 0: for ever.
func (m *Machine) stuckAfter() time.Duration {
	if m.config.StuckAfter == 0 {
		return 0
	}
	return max(m.config.StuckAfter, stuckSteps*m.pace.middle)
}
