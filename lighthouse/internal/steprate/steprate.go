// Package steprate measures how fast a job steps, over the last minutes: that is by which rate it
// will be done, for it counts the time that faults take, too. The rate of the last seconds, which
// pages show beside it, does not.
//
// It is pure: no goroutine, no clock; the time is an argument.
package steprate

import "time"

// A sample is the highest step that was heard in every of a span; those of the window are kept.
const (
	every  = 5 * time.Second
	window = 3 * time.Minute
	kept   = int(window / every)
)

// Run is a job's run, as far as its steps go. The zero value has heard nothing. It is owned by
// one goroutine.
type Run struct {
	total   int64
	samples []sample // oldest first
	newest  sample   // the highest step, and when it was heard first
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
	if n := len(r.samples); n > 0 && now.Sub(r.samples[n-1].at) < every {
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

// PerSecond is the steps a second since the oldest sample of the window. 0: not known.
func (r *Run) PerSecond(now time.Time) float64 {
	for _, s := range r.samples {
		if now.Sub(s.at) > window {
			continue
		}
		if d := now.Sub(s.at); d >= every && r.newest.step > s.step {
			return float64(r.newest.step-s.step) / d.Seconds()
		}
		break
	}
	return 0
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
