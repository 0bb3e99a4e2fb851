package story

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// A straggler's own time of a step is that many times the median of the members', and so much
// more than it: a factor alone would call one of two that take a millisecond a straggler.
const (
	stragglerFactor = 1.5
	stragglerLeast  = 20 * time.Millisecond
)

// StragglesAbove is from which own time of a step on a member is a straggler: the others wait for
// it in each step. 0: too few have told theirs.
func StragglesAbove(replicas []quorum.ReplicaStatus) time.Duration {
	var own []time.Duration
	for _, r := range replicas {
		if r.Member && r.Beat.Own > 0 {
			own = append(own, r.Beat.Own)
		}
	}
	if len(own) < 2 {
		return 0
	}
	slices.Sort(own)
	// Of two, the median is the faster one: else the slower one would be measured by itself.
	middle := own[(len(own)-1)/2]
	return max(time.Duration(stragglerFactor*float64(middle)), middle+stragglerLeast)
}
