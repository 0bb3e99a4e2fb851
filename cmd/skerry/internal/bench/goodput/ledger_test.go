package goodput

import (
	"strings"
	"testing"
	"time"
)

// played is a ledger of replica 0 and 1, of whose steps each takes 100 ms, with one kill.
func played() *ledger {
	l := newLedger()
	at := func(ms int64) int64 { return ms * int64(time.Millisecond) }
	for step := int64(1); step <= 10; step++ {
		l.committed(0, commit{step: step, at: at(100 * step), participants: 2, hash: "h"})
		l.committed(1, commit{step: step, at: at(100*step + 1), participants: 2, hash: "h"})
		if step == 1 {
			l.start()
		}
	}
	l.blows = append(l.blows, &blow{kind: Kill, victim: 1, at: at(1050), ended: at(1050)})
	l.committed(0, commit{step: 11, at: at(1300), participants: 1, hash: "h"})
	l.committed(0, commit{step: 12, at: at(1400), participants: 1, hash: "h"})
	l.committed(0, commit{step: 13, at: at(1500), participants: 2, hash: "h"})
	l.committed(1, commit{step: 13, at: at(1500), participants: 2, hash: "other"})
	l.end = at(2100)
	for step := int64(14); step <= 19; step++ {
		l.committed(0, commit{step: step, at: at(100 * (step + 2)), participants: 2, hash: "h"})
	}
	return l
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l := played()
	all := l.counted()
	pace := l.pace(all)
	if pace != 100*time.Millisecond {
		t.Errorf("an undisturbed step takes %v, want 100ms", pace)
	}
	s := l.shares(all, pace, 50*time.Millisecond, 2)
	// 18 steps in 2 s; two of them by one replica of two.
	if s.goodput != 0.9 || s.compute != 0.45 || s.replicas != 0.425 {
		t.Errorf("goodput %v, compute %v, by replicas %v, want 0.9, 0.45, 0.425", s.goodput, s.compute, s.replicas)
	}
	gap, lost := l.cost(l.blows[0], all, pace)
	if gap != 300*time.Millisecond || lost != 200*time.Millisecond {
		t.Errorf("the kill: a gap of %v, %v lost; want 300ms, 200ms", gap, lost)
	}
	if got := l.longest(all); got != 300*time.Millisecond {
		t.Errorf("the longest gap is %v, want 300ms", got)
	}
	if l.blows[0].back != 1500*int64(time.Millisecond) {
		t.Errorf("the victim was back at %d", l.blows[0].back)
	}
	if l.compared != 11 || l.differed != 1 {
		t.Errorf("%d compared, %d differed; want 11, 1", l.compared, l.differed)
	}
}

// TestLedgerWithoutAnEnd: a run that no step ends any more loses all the time since the fault.
func TestLedgerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	l := newLedger()
	for step := int64(1); step <= 3; step++ {
		l.committed(0, commit{step: step, at: 100 * step, participants: 2, hash: "h"})
		if step == 1 {
			l.start()
		}
	}
	l.blows = append(l.blows, &blow{kind: Stop, victim: 1, at: 350})
	l.end = 1000
	all := l.counted()
	if gap, lost := l.cost(l.blows[0], all, l.pace(all)); gap != 700 || lost != 700 {
		t.Errorf("a gap of %v, %v lost; want 700ns each", gap, lost)
	}
	if s := l.shares(all, l.pace(all), 100, 2); s.goodput != 200.0/900 {
		t.Errorf("goodput %v, want 2 steps of 100 in 900", s.goodput)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	c := Default()
	c.Impl, c.Mode, c.Replicas, c.EverySteps, c.Faults = "x", "y", 1, 3, []string{"flood"}
	err := c.Validate()
	if err == nil {
		t.Fatal("a bad config is valid")
	}
	for _, want := range []string{`--impl = "x"`, `--mode = "y"`, "--replicas = 1", "--every = 29s", `--faults = "flood"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
}
