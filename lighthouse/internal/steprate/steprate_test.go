package steprate

import (
	"testing"
	"time"
)

// start is when the tests begin.
var start = time.Unix(1_000_000, 0)

// hear has a job make so many steps a second for a while, in beats of its replicas, of which one
// is behind.
func (r *Run) hear(from time.Time, step int64, perSecond int, long time.Duration) (time.Time, int64) {
	for end := from.Add(long); from.Before(end); {
		from, step = from.Add(time.Second/time.Duration(perSecond)), step+1
		r.Heard(from, step)
		r.Heard(from, step-3)
	}
	return from, step
}

func TestARateIsThatOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	var r Run
	if got := r.PerSecond(start); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	now, step := r.hear(start, 0, 10, 2*time.Second)
	if got := r.PerSecond(now); got != 0 {
		t.Errorf("after two seconds: %v, want none", got)
	}
	now, step = r.hear(now, step, 10, 10*time.Minute)
	if got := r.PerSecond(now); got < 9.9 || got > 10.1 {
		t.Errorf("%v steps a second, want 10", got)
	}
	// A minute of three without a step counts.
	now = now.Add(time.Minute)
	if got := r.PerSecond(now); got < 6 || got > 7 {
		t.Errorf("after a minute without steps: %v a second, want 10 in two minutes of three", got)
	}
	if got := r.PerSecond(now.Add(time.Hour)); got != 0 {
		t.Errorf("after an hour without steps: %v, want none", got)
	}
	now, step = r.hear(now, step, 20, 10*time.Minute)
	if got := r.PerSecond(now); got < 19 || got > 20.1 {
		t.Errorf("%v steps a second, want 20: what was before is long ago", got)
	}
	if len(r.samples) > kept {
		t.Errorf("%d samples are kept, want at most %d", len(r.samples), kept)
	}
	r.FellBack()
	now, _ = r.hear(now, step/2, 5, time.Minute)
	if got := r.PerSecond(now); got < 4.9 || got > 5.1 {
		t.Errorf("%v steps a second behind a state that was lost, want 5", got)
	}
}

// Of two replicas that come back the one that is behind is heard first.
func TestWhoIsBehindIsNoBeginning(t *testing.T) {
	t.Parallel()
	var r Run
	r.Heard(start, 500)
	r.Heard(start.Add(100*time.Millisecond), 10_000)
	now, _ := r.hear(start, 10_000, 10, 30*time.Second)
	if got := r.PerSecond(now); got < 9 || got > 11 {
		t.Errorf("%v steps a second, want 10", got)
	}
}

func TestLongStepsHaveARate(t *testing.T) {
	t.Parallel()
	var r Run
	now := start
	for step := int64(1); step <= 4; step++ {
		r.Heard(now, step)
		now = now.Add(10 * time.Minute)
	}
	if got := r.PerSecond(now.Add(-5*time.Minute)) * 600; got < 0.99 || got > 1.01 {
		t.Errorf("%v steps in ten minutes, want 1", got)
	}
	if got := r.PerSecond(now.Add(time.Hour)); got != 0 {
		t.Errorf("an hour later: %v a second, want none", got)
	}
}

func TestTheHighestTotalCounts(t *testing.T) {
	t.Parallel()
	var r Run
	for _, o := range []struct {
		total int64
		alone bool
		want  int64
	}{{0, true, 0}, {600, false, 600}, {500, false, 600}, {0, false, 600}, {700, false, 700}, {50, true, 50}} {
		if r.Opened(o.total, o.alone); r.Total() != o.want {
			t.Errorf("after %+v: %d", o, r.Total())
		}
	}
}

func TestLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, total int64
		perSecond   float64
		want        time.Duration
	}{
		{100, 600, 10, 50 * time.Second}, {600, 600, 10, 0}, {700, 600, 10, 0}, {1, 0, 10, 0}, {1, 600, 0, 0},
		{0, 1 << 53, 1e-9, maxLeft},
	} {
		if got := Left(c.step, c.total, c.perSecond); got != c.want {
			t.Errorf("from %d to %d at %v: %v, want %v", c.step, c.total, c.perSecond, got, c.want)
		}
	}
}
