// Package reach connects to hosts that answer within a limit, and tells one that is out of
// reach from one that refuses.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrUnreachable is returned when a host did not answer within the limit. The link to it
// is bad; what runs there may live.
var ErrUnreachable = errors.New("pg: out of reach")

const (
	// maxTries is how many connections Dial tries side by side, one after the
	// other: the system repeats a lost SYN after a second only, then after two more.
	// So a link that was mended is found within a quarter of the limit.
	maxTries = 4
	// maxLate bounds how often Dial begins anew because it was itself not
	// scheduled.
	maxLate = 3
)

// Dial connects to a host that answers within limit. Its argument dial makes one connection; it
// is called several times, the calls overlap, and ends with its context.
//
// An answer that is no connection (refused) is returned at once. Where Dial would
// give up much later than limit, or has begun fewer connections than it should have, its
// own process was not scheduled meanwhile, and it begins anew, a few times at most.
//
// Errors: ErrUnreachable when nothing answered; those of dial; context errors.
func Dial(ctx context.Context, limit time.Duration, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	for again := 0; ; again++ {
		began := time.Now()
		c, tries, err := once(ctx, limit, dial)
		late := time.Since(began) - limit
		slept := late >= limit/maxTries || late >= 0 && tries < maxTries
		if !errors.Is(err, ErrUnreachable) || !slept || again == maxLate {
			return c, err
		}
	}
}

// errSilent is why a try ends that had the whole limit, even where ctx ends just after.
var errSilent = errors.New("no answer")

// reached is what became of one call of dial.
type reached struct {
	c   net.Conn
	err error
}

// endedBy says that the deadline of within is ctx's, and has passed.
func endedBy(ctx, within context.Context) bool {
	callers, ok := ctx.Deadline()
	own, _ := within.Deadline()
	return ok && !own.Before(callers) && !time.Now().Before(callers)
}

// once is Dial that does not begin anew, and tells how many connections it has begun.
func once(ctx context.Context, limit time.Duration, dial func(context.Context) (net.Conn, error)) (c net.Conn, tries int, err error) {
	within, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	var wg sync.WaitGroup
	results := make(chan reached)
	running := 0
	try := func() {
		tries++
		running++
		wg.Go(func() {
			c, err := dial(within)
			results <- reached{c, err}
		})
	}
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if r := <-results; r.err == nil {
				r.c.Close() // another one was first
			}
		}
		wg.Wait()
	}()
	again := time.NewTicker(max(limit/maxTries, 1))
	defer again.Stop()
	try()
	for {
		select {
		case r := <-results:
			running--
			ne, ok := errors.AsType[net.Error](r.err)
			switch {
			case r.err == nil || ctx.Err() != nil && context.Cause(within) != errSilent:
				return r.c, tries, r.err
			case within.Err() == nil && !(ok && ne.Timeout()): // whose clock may be ahead of ours
				return nil, tries, r.err // it was refused, or this host has no way there
			case running == 0 && endedBy(ctx, within): // and the dialler's timer was before ctx's
				return nil, tries, fmt.Errorf("%w: %w", context.DeadlineExceeded, r.err)
			case running == 0:
				// Hidden, for it would say that another try may help.
				return nil, tries, fmt.Errorf("%w: no answer within %v: %v", ErrUnreachable, limit, r.err)
			}
		case <-again.C:
			if tries < maxTries {
				try()
			}
		}
	}
}
