package budget

import (
	"testing"
	"time"
)

// A replica that crashes at once is started again after pauses that double, as often as the
// rule says, and no more.
func TestCrashesAtOnceSpendTheBudget(t *testing.T) {
	t.Parallel()
	b := New(Rule{Most: 12, RefillSteps: 100, RefillAfter: time.Hour})
	want := FirstPause
	for i := range 12 {
		pause, again := b.Crash(Life{Ran: time.Second})
		if !again || pause != min(want, mostPause) || b.Spent() != i+1 {
			t.Fatalf("crash %d: %v, %t, %d spent, want %v and a start", i+1, pause, again, b.Spent(), want)
		}
		want *= 2
	}
	if _, again := b.Crash(Life{Ran: time.Second}); again {
		t.Error("a start after the budget was spent")
	}
}

// None means none.
func TestNoRestarts(t *testing.T) {
	t.Parallel()
	if _, again := New(Rule{RefillSteps: 1}).Crash(Life{Known: true, Steps: 1000}); again {
		t.Error("a start though the rule allows none")
	}
}

// What gives crashes back, and what makes the pause the first again.
func TestRefill(t *testing.T) {
	t.Parallel()
	rule := Rule{Most: 3, RefillSteps: 100, RefillAfter: 10 * time.Minute}
	for name, c := range map[string]struct {
		life  Life
		ever  bool // such lives go on for ever
		first bool // each pause is the first
	}{
		"many steps":                      {Life{Ran: time.Second, Known: true, Steps: 100}, true, true},
		"steps too few to refill":         {Life{Ran: time.Hour, Known: true, Steps: 20}, false, true},
		"known, but stuck for hours":      {Life{Ran: 5 * time.Hour, Known: true}, false, false},
		"unknown, and lives long":         {Life{Ran: 10 * time.Minute}, true, true},
		"unknown, and lives a little":     {Life{Ran: 2 * time.Minute}, false, true},
		"unknown, and lives for a moment": {Life{Ran: time.Second}, false, false},
	} {
		b := New(rule)
		var pauses []time.Duration
		for len(pauses) < 50 {
			pause, again := b.Crash(c.life)
			if !again {
				break
			}
			pauses = append(pauses, pause)
		}
		if ever := len(pauses) == 50; ever != c.ever {
			t.Errorf("%s: %d starts, want for ever: %t", name, len(pauses), c.ever)
		}
		if first := pauses[2] == FirstPause; first != c.first {
			t.Errorf("%s: third pause %v, want the first one's %v: %t", name, pauses[2], FirstPause, c.first)
		}
	}
}

// Steps of several lives add up: three lives of 40 give one crash back.
func TestStepsAddUp(t *testing.T) {
	t.Parallel()
	b := New(Rule{Most: 9, RefillSteps: 100})
	for range 3 {
		b.Crash(Life{Known: true, Steps: 40})
	}
	if b.Spent() != 2 {
		t.Errorf("%d spent after three crashes with 40 steps each, want 2", b.Spent())
	}
	b.Crash(Life{Known: true, Steps: 1_000_000})
	b.Crash(Life{Known: true})
	if b.Spent() != 2 {
		t.Errorf("%d spent, want 2: no more is given back than was spent", b.Spent())
	}
}
