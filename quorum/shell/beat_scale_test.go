package shell

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// The scale at which all beats stay within the bound: it grows as soon as they do not,
// and falls when there is room again for a quarter of the sessions.
func TestBeatScaleFits(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	for _, tc := range []struct{ factor, sessions, want int }{
		{1, 0, 1}, {1, 2000, 1}, {1, 2001, 2}, {1, 4000, 2}, {1, 10_000, 8},
		{2, 1999, 2}, {2, 1500, 1}, {8, 0, 1}, {8, 7999, 8}, {8, 5999, 4},
	} {
		got := beatScale{factor: tc.factor}.fitting(tc.sessions, interval)
		if got != tc.want {
			t.Errorf("%d sessions at factor %d: %d, want %d", tc.sessions, tc.factor, got, tc.want)
		}
		if rate := float64(tc.sessions) / (float64(got) * interval.Seconds()); rate > maxBeatsPerSecond {
			t.Errorf("%d sessions at factor %d: %.0f beats a second", tc.sessions, got, rate)
		}
	}
	if err := (beatScale{factor: 128}).stretch(quorum.DefaultConfig()).Validate(); err != nil {
		t.Errorf("stretched rules: %v", err)
	}
}

// The scale grows at once, and shrinks by half at most, once the sessions have had a
// heartbeat timeout, as it is in force, to hear of the last change.
func TestBeatScaleShrinksSlowly(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	now, rules := time.Unix(1_764_000_000, 0), quorum.DefaultConfig()
	var s beatScale
	step := func(after time.Duration, sessions, want int) {
		t.Helper()
		now = now.Add(after)
		if s = s.next(now, sessions, interval, s.stretch(rules)); s.times() != want {
			t.Errorf("after %v with %d sessions: %d, want %d", after, sessions, s.times(), want)
		}
	}
	step(0, 0, 1)
	step(0, 10_000, 8)
	step(8*rules.HeartbeatTimeout, 0, 8)
	step(time.Millisecond, 0, 4)
	step(4*rules.HeartbeatTimeout, 0, 4)
	step(0, 20_000, 16) // growing waits for nothing
	step(16*rules.HeartbeatTimeout+1, 0, 8)
}

// Times that follow from the heartbeat timeout fit it, and others stay.
func TestConfigFitting(t *testing.T) {
	t.Parallel()
	c := quorum.DefaultConfig()
	c.HeartbeatTimeout, c.SuspectAfter, c.StuckAfter = 5*time.Second, 4*time.Second, time.Second
	want := c
	want.SuspectAfter, want.StuckAfter = 2500*time.Millisecond, 5*time.Second
	if got := fitted(c); got != want {
		t.Errorf("fitting %+v, want %+v", got, want)
	}
	c.StuckAfter, want.StuckAfter = 0, 0 // never stuck
	if got := fitted(c); got != want {
		t.Errorf("fitting %+v, want %+v", got, want)
	}
}
