package shell

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// maxBeatsPerSecond bounds the sum of the beats of all sessions at a leader: with more
// than maxBeatsPerSecond × the beat interval of them, the interval grows.
const maxBeatsPerSecond = 20_000

// beatScale is the power of two by which a job's beat interval, and the timeouts that
// wait for beats, are stretched. It is copied by value. 10,000 sessions that beat each
// 100 ms would be 100,000 beats in a second: they beat each 800 ms, and a replica is lost
// after 8 s of silence in place of one.
type beatScale struct {
	factor  int       // 0 is 1
	changed time.Time // when it last did
}

// times is the power of two, 1 at least.
func (s beatScale) times() int { return max(s.factor, 1) }

// next returns the scale from now on, with so many sessions of all jobs. interval is
// the job's beat interval before it is stretched, above 0, and inForce the rules that
// its machine has, stretched as they are. It grows at once. Sessions beat as slowly as they
// were told until they are told anew, so it shrinks by half at most, and not before all
// have heard of the last change: a replica that still beats at the old pace would be
// suspected of silence. With an interval of 100 ms:
//
//	3,000 sessions             30,000 beats a second: each 200 ms from now on
//	2,000 sessions             each 200 ms still: at 100 ms it would be 20,000, with no room
//	1,500 sessions             each 100 ms, once all have heard of the last change
//	10,000 sessions at once    each 800 ms, at once
func (s beatScale) next(now time.Time, sessions int, interval time.Duration, inForce quorum.Config) beatScale {
	factor := s.times()
	switch next := s.fitting(sessions, interval); {
	case next > factor:
		factor = next
	case next < factor && now.Sub(s.changed) > inForce.HeartbeatTimeout:
		factor /= 2
	}
	if factor == s.times() {
		return s
	}
	return beatScale{factor: factor, changed: now}
}

// fitting is the factor at which the sum of all beats stays within maxBeatsPerSecond. It
// falls only when a quarter of the sessions could come back, or it would flap at an edge.
func (s beatScale) fitting(sessions int, interval time.Duration) int {
	beats := func(factor int) int {
		return int(time.Duration(sessions) * time.Second / (interval * time.Duration(factor)))
	}
	factor := s.times()
	for beats(factor) > maxBeatsPerSecond {
		factor *= 2
	}
	for factor > 1 && beats(factor/2) <= maxBeatsPerSecond*3/4 {
		factor /= 2
	}
	return factor
}

// stretch returns c with every timeout that waits for beats multiplied.
func (s beatScale) stretch(c quorum.Config) quorum.Config {
	k := time.Duration(s.times())
	// Each waits for beats: where these come more rarely, a silence must be longer to say
	// something.
	c.HeartbeatTimeout *= k
	c.SuspectAfter *= k
	c.Grace *= k
	if c.StuckAfter > 0 {
		c.StuckAfter = max(c.StuckAfter, c.HeartbeatTimeout)
	}
	return c
}

// fitted returns c with the times that follow from the heartbeat timeout made to fit
// it: suspicion comes before the loss, and a replica is not stuck before it is lost.
func fitted(c quorum.Config) quorum.Config {
	c.SuspectAfter = min(c.SuspectAfter, c.HeartbeatTimeout/2)
	if c.StuckAfter > 0 {
		c.StuckAfter = max(c.StuckAfter, c.HeartbeatTimeout)
	}
	return c
}
