// Package backoff has the pauses between two tries at the same thing: each is longer
// than the one before, up to a bound. It has no goroutines.
package backoff

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the pauses. Its zero value pauses for no time. It is owned by one
// goroutine; copy it to begin anew.
type Backoff struct {
	First time.Duration // the first pause
	Most  time.Duration // the longest one

	// Factor is how much longer each is than the one before; 0 means 2.
	Factor float64

	// Spread draws each pause from its second half, so that many who lost the same
	// peer do not come back in step.
	Spread bool

	next time.Duration
}

// Next returns the next pause: Factor times the one before, from First to Most; with
// Spread at least half of that.
func (b *Backoff) Next() time.Duration {
	pause := min(max(b.next, b.First), b.Most)
	b.next = time.Duration(float64(pause) * cmp.Or(b.Factor, 2))
	if b.Spread && pause > 1 {
		return pause - rand.N(pause/2)
	}
	return pause
}

// Reset makes the next pause the first again: the thing was there.
func (b *Backoff) Reset() { b.next = 0 }

// Wait pauses for Next. It returns the cause of ctx's end if that comes first, and
// then has not waited to the end.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep waits for d, or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
