package events_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/manager/internal/events"
)

// TestInOrder: an event that is emitted while another is told comes after it, and is
// told once.
func TestInOrder(t *testing.T) {
	t.Parallel()
	var e events.Events[int]
	e.Emit(0) // nothing listens
	var told []int
	e.Tell = func(v int) {
		if v < 10 {
			e.Emit(10 * v)
		}
		told = append(told, v)
	}
	for v := range 3 {
		e.Emit(v + 1)
	}
	if want := []int{1, 10, 2, 20, 3, 30}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// TestOneAtATime: many goroutines emit; no two calls of Tell overlap.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	var e events.Events[int]
	var told []int // of one goroutine at a time, as the race detector sees
	e.Tell = func(v int) { told = append(told, v) }
	var wg sync.WaitGroup
	for v := range 200 {
		wg.Go(func() { e.Emit(v) })
	}
	wg.Wait()
	slices.Sort(told)
	for i, v := range told {
		if i != v {
			t.Fatalf("told %d events, %d at %d", len(told), v, i)
		}
	}
}
