// Package steprate measures how fast a job steps, over the last minutes: that is by which rate it
// will be done, for it counts the time that faults take, too. The rate of the last seconds, which
// pages show beside it, does not.
//
// It is pure: no goroutine, no clock; the time is an argument.
package steprate

import "time"

// A sample is a step that was the highest, one in every of a span; those of the window are kept, and
// the one before.
const (
	every  = 5 * time.Second
	window = 3 * time.Minute
	kept   = int(window/every) + 1
)

// Run is a job's run, as far as its steps go. The zero value has heard nothing. It is owned by
// one goroutine.
type Run struct {
	total   int64
	began   time.Time // when a step was heard first
	samples []sample  // oldest first
	newest  sample    // the highest step, and when it was heard first
}

type sample struct {
	at   time.Time
	step int64
}

// Heard notes a step of a replica. One that is behind tells nothing: replicas heal.
func (r *Run) Heard(now time.Time, step int64) {
	if step <= r.newest.step {
		return
	}
	r.newest = sample{now, step}
	if len(r.samples) == 0 {
		r.began = now
	}
	switch n := len(r.samples); {
	case now.Sub(r.began) < every:
		r.samples = r.samples[:0] // one that is behind may have been heard first
	case n > 0 && now.Sub(r.samples[n-1].at) < every:
		return
	}
	r.samples = append(r.samples, r.newest)
	if over := len(r.samples) - kept; over > 0 {
		r.samples = append(r.samples[:0], r.samples[over:]...)
	}
}

// Opened notes a session's word on how many steps the run has; 0: it does not know. The highest
// counts. alone says that no other is open: another run may begin.
func (r *Run) Opened(total int64, alone bool) {
	if alone {
		*r = Run{}
	}
	r.total = max(r.total, total)
}

// FellBack forgets the steps that were heard: the newest state is lost.
func (r *Run) FellBack() { r.samples, r.newest = nil, sample{} }

// Total is how many steps the run has. 0: none of its replicas has said.
func (r *Run) Total() int64 { return r.total }

// PerSecond is the steps a second in the window, or, where a step takes as long, since the
// one before the newest. That none came for longer than a step takes counts; after three times as
// long, and the window, the rate is not known: 0.
func (r *Run) PerSecond(now time.Time) float64 {
	var base sample
	for _, s := range r.samples {
		if s.step < r.newest.step && (base.at.IsZero() || now.Sub(s.at) >= window) {
			base = s
		}
	}
	took := r.newest.at.Sub(base.at)
	if base.at.IsZero() || took < every {
		return 0
	}
	steps := r.newest.step - base.step
	each := took / time.Duration(steps)
	idle := max(0, now.Sub(r.newest.at)-each)
	if idle > max(window, 3*each) {
		return 0
	}
	return float64(steps) / (took + idle).Seconds()
}

// maxLeft is what a longer time counts as: such a rate tells nothing.
const maxLeft = 10 * 365 * 24 * time.Hour

// Left is how long the run takes from step on to total, at that many steps a second. 0: that is
// not known, or it is done.
func Left(step, total int64, perSecond float64) time.Duration {
	if total <= step || perSecond <= 0 {
		return 0
	}
	return time.Duration(min(float64(total-step)/perSecond, maxLeft.Seconds()) * float64(time.Second))
}
