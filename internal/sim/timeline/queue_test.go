package timeline_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/internal/sim/timeline"
)

// drain pops all events, and checks that times never fall.
func drain(t *testing.T, q *timeline.Queue[int]) (times []int64, events []int) {
	t.Helper()
	for next, more := q.Next(); more; next, more = q.Next() {
		at, e := q.Pop()
		if at != next || len(times) > 0 && at < times[len(times)-1] {
			t.Fatalf("event %d comes at %d, behind %v; Next said %d", e, at, times, next)
		}
		times, events = append(times, at), append(events, e)
	}
	return times, events
}

func TestEventsComeByTimeAndThenByOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var q timeline.Queue[int]
	type event struct {
		at int64
		n  int
	}
	var want []event
	for n := range 1000 {
		at := rng.Int64N(50)
		q.Push(at, n)
		want = append(want, event{at, n})
	}
	slices.SortStableFunc(want, func(a, b event) int { return int(a.at - b.at) })
	_, got := drain(t, &q)
	for i, e := range got {
		if e != want[i].n {
			t.Fatalf("event %d is %d, want %d", i, e, want[i].n)
		}
	}
	if len(got) != 1000 || q.Pushed() != 1000 {
		t.Errorf("%d events of %d", len(got), q.Pushed())
	}
}

// A clock that jumps hurries its own timers, and none comes before now.
func TestHurry(t *testing.T) {
	t.Parallel()
	var q timeline.Queue[int]
	for n := range 20 {
		q.Push(int64(100+n), n)
	}
	q.Hurry(func(n int) bool { return n%2 == 1 }, 105, 10)
	times, events := drain(t, &q)
	for i, n := range events {
		want := int64(100 + n)
		if n%2 == 1 {
			want = max(105, want-10)
		}
		if times[i] != want {
			t.Errorf("event %d comes at %d, want %d", n, times[i], want)
		}
	}
	if len(events) != 20 {
		t.Errorf("%d events, want 20", len(events))
	}
}
