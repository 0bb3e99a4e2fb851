// Package pause has what lies between two questions to NCCL, or to a GPU, until what was
// asked for is done.
package pause

import (
	"context"
	"runtime"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// A launch is through after 20 to 100 µs, and a small collective not long after. The
// runtime's timers are too coarse for that: where nothing else runs, the shortest lasts a
// millisecond, since epoll_wait counts in those. So the first questions follow one another;
// then the thread itself sleeps, which the kernel does to some 50 µs; what lasts is asked
// after now and then.
const (
	spinFor  = 50 * time.Microsecond
	Nap      = 50 * time.Microsecond
	napUntil = 10 * time.Millisecond
	Most     = time.Millisecond
)

// A Pause waits between questions, longer as time goes by. Its first wait begins it.
// The caller is on a thread that nothing else needs.
type Pause struct{ began time.Time }

// Wait waits a little; at wake, when it is long. It returns the cause of an end of ctx.
func (p *Pause) Wait(ctx context.Context, wake <-chan struct{}) error {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	switch age := time.Since(p.began); {
	case age < spinFor:
		runtime.Gosched()
	case age < napUntil:
		sleep(Nap)
	case wake == nil:
		return backoff.Sleep(ctx, Most)
	default:
		timer := time.NewTimer(Most)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
