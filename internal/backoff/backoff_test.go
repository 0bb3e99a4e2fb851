package backoff_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// Pauses double from the first to the longest, and begin anew after a success.
func TestPausesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{First: 20 * time.Millisecond, Most: 100 * time.Millisecond}
		var got []time.Duration
		for i := range 6 {
			if i == 4 {
				b.Reset()
			}
			began := time.Now()
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			got = append(got, time.Since(began)/time.Millisecond)
		}
		if want := []time.Duration{20, 40, 80, 100, 20, 40}; !slices.Equal(got, want) {
			t.Errorf("paused for %v ms, want %v", got, want)
		}
	})
}

// A longest pause may change under way, and the factor may be another than 2.
func TestFactorAndBound(t *testing.T) {
	b := backoff.Backoff{First: 40, Most: 1000, Factor: 1.5}
	got := []time.Duration{b.Next(), b.Next(), b.Next()}
	b.Most = 70
	got = append(got, b.Next())
	if want := []time.Duration{40, 60, 90, 70}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

// A spread pause lies in the second half of the one that it is drawn from, and two
// that lost the same peer do not always pause for the same time.
func TestSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 100 {
		b := backoff.Backoff{First: time.Second, Most: 3 * time.Second, Spread: true}
		for _, whole := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			got := b.Next()
			if got <= whole/2 || got > whole {
				t.Fatalf("paused for %v, want over %v to %v", got, whole/2, whole)
			}
			seen[got] = true
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d different pauses of 400", len(seen))
	}
}

// The end of a context ends a pause at once, with its cause.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("no more")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		b, began := backoff.Backoff{First: time.Hour, Most: time.Hour}, time.Now()
		if err := b.Wait(ctx); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("waited %v with error %v, want 1s and %v", time.Since(began), err, why)
		}
	})
}
