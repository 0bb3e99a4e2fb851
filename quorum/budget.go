package quorum

import "time"

// This file bounds what a job costs all others of its lighthouse (PROTOCOL §6a, L1). Each
// quorum is a write to every server's disk, and what leads to one is up to the replicas: one
// that says each time that it has committed a step, and that its quorum fell, or
// comes under a new name each time, had a quorum for each of its words, thousands a
// second. No pause after quorums that committed nothing (pauseAfter) holds it: by its
// word it committed.

const (
	// FormBurst is how many quorums a job may form as fast as it can: more than
	// any recovery takes, or an hour of deaths.
	FormBurst = 1_024
	// FormEvery is how often it may form one after that.
	FormEvery = 100 * time.Millisecond
)

// budget is when the next quorum may be formed. The zero value is a full one.
type budget struct{ at time.Time }

// spend notes that a quorum was formed.
func (b *budget) spend(now time.Time) {
	if full := now.Add(-FormBurst * FormEvery); b.at.Before(full) {
		b.at = full
	}
	b.at = b.at.Add(FormEvery)
}

// within is d, or the pause that is left before it.
func (b *budget) within(now time.Time, d Decision) Decision {
	if !d.Ready || !d.Changed || !now.Before(b.at) {
		return d
	}
	return notYet(ReasonPause, "the job has formed %d quorums in a short time, now one each %v", FormBurst, FormEvery)
}
