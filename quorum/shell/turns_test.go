package shell

import (
	"testing"
	"time"
)

// A wake-up that comes in time says nothing; one that comes late says that nothing was
// heard since the last turn, once.
func TestTurnsFindAStall(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	start := time.Unix(1_764_000_000, 0)
	turns := NewTurns(start)
	for _, tc := range []struct {
		due, at, deaf time.Duration // since start; due 0: nothing was
		overdue       bool
	}{
		{0, 60_000 * ms, 0, false}, // no wake-up, so no sign of a stall
		{60_100 * ms, 60_050 * ms, 0, false},
		{60_100 * ms, 60_250 * ms, 0, true}, // late by as much as a busy machine may be
		{60_300 * ms, 60_451 * ms, 201 * ms, true},
		{0, 90_000 * ms, 0, false}, // what was due was answered
	} {
		if turns.Due = (time.Time{}); tc.due > 0 {
			turns.Due = start.Add(tc.due)
		}
		now := start.Add(tc.at)
		if got := turns.Overdue(now); got != tc.overdue {
			t.Errorf("at %v, due at %v: overdue %v, want %v", tc.at, tc.due, got, tc.overdue)
		}
		if got := turns.Begin(now); got != tc.deaf {
			t.Errorf("at %v, due at %v: heard nothing for %v, want %v", tc.at, tc.due, got, tc.deaf)
		}
		if !turns.Due.IsZero() {
			t.Errorf("at %v: still due", tc.at)
		}
	}
}

// A turn that waits for the ledger heard nothing since it began, if that took long.
func TestTurnsWaitForAWrite(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_764_000_000, 0)
	turns := NewTurns(now)
	if got := turns.Waited(now.Add(stallAfter), stallAfter); got != 0 {
		t.Errorf("a write of %v: heard nothing for %v, want 0", stallAfter, got)
	}
	if got := turns.Waited(now.Add(time.Second), time.Second); got != time.Second {
		t.Errorf("a write of 1s: heard nothing for %v, want 1s", got)
	}
	turns.Due = now.Add(time.Second)
	if got := turns.Begin(now.Add(2 * time.Second)); got != time.Second {
		t.Errorf("after it: heard nothing for %v, want 1s, for the write was counted", got)
	}
}
