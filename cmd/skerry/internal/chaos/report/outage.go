package report

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
)

// Look is the job at one moment.
type Look struct {
	At     time.Time
	Step   int64 // the highest that is committed
	Quorum int64
	Stands bool
	Trains []string // ids of the members whose gradients count
	// Committed is the quorum in which the newest of their steps was committed; 0: not known.
	Committed int64
	// Ahead is how far the lighthouse's clock is ahead of ours.
	Ahead time.Duration
}

// Outage is how a job gets over one fault.
type Outage struct {
	Fault plan.Fault
	How   string // it was done, in words
	At    time.Time
	// Resumed is when the first step was seen that the job committed after the fault, Over
	// when as many replicas train as before, Late when that was waited for no more.
	Resumed, Over, Late time.Time

	before Look
	ends   time.Time // of the fault
	marked bool
	mark   Look // the first one since which commits count
	end    *Look
}

// steady is how many steps show that a quorum that stays goes on: one may have been as good
// as committed when the fault came, and be told later.
const steady = 2

// look takes in the job at a later moment.
func (o *Outage) look(l Look) {
	if !o.counts(l) {
		return
	}
	if !o.marked || l.Quorum != o.mark.Quorum {
		o.marked, o.mark = true, l
	}
	if o.Resumed.IsZero() && o.goesOn(l) {
		o.Resumed = l.At
	}
	if l.At.Before(o.ends) {
		return
	}
	if o.end == nil {
		o.end = &l
	}
	if o.Over.IsZero() && !o.Resumed.IsZero() && l.Step >= o.end.Step+1 && len(l.Trains) >= len(o.before.Trains) {
		o.Over = l.At
	}
}

// goesOn tells whether the job has committed a step since the fault.
func (o *Outage) goesOn(l Look) bool {
	switch {
	case l.Quorum == o.before.Quorum:
		return l.Step >= o.mark.Step+steady
	case l.Committed != 0:
		return l.Committed == l.Quorum
	}
	return l.Step > o.mark.Step
}

// counts tells whether commits in a quorum can show anything: it stands, and what was killed
// is no part of it.
func (o *Outage) counts(l Look) bool {
	if !l.Stands {
		return false
	}
	switch o.Fault.Kind {
	case plan.Kill:
		return l.Quorum != o.before.Quorum && !slices.Contains(l.Trains, o.Fault.Victim)
	case plan.Rank: // the replica may keep its name
		return l.Quorum != o.before.Quorum
	}
	return true
}

// Open says that the job is not back from the fault, and that is waited for.
func (o *Outage) Open() bool { return o.Over.IsZero() && o.Late.IsZero() }
