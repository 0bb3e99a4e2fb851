package checkpoint

import (
	"context"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// pace limits a rate: the reads of targets that are not in the quorum yet must
// leave the network and the memory to those that train. Safe for concurrent use.
type pace struct {
	perSecond int64

	mu struct {
		sync.Mutex

		free time.Time // when the next reader may go on
	}
}

// paceBurst is how far readers may be behind the clock, and catch up.
const paceBurst = 20 * time.Millisecond

// wait spends n bytes, and returns when it is their turn. Where ctx ends before that it spends
// nothing: all that come later would wait behind a turn that no reader takes.
func (p *pace) wait(ctx context.Context, n int64) error {
	now := time.Now()
	p.mu.Lock()
	if oldest := now.Add(-paceBurst); p.mu.free.Before(oldest) {
		p.mu.free = oldest
	}
	turn := p.mu.free
	if end, ok := ctx.Deadline(); ok && turn.After(end) {
		p.mu.Unlock()
		return context.DeadlineExceeded
	}
	p.mu.free = turn.Add(time.Duration(float64(n) / float64(p.perSecond) * float64(time.Second)))
	p.mu.Unlock()
	if !turn.After(now) {
		return nil
	}
	err := backoff.Sleep(ctx, turn.Sub(now))
	if err != nil {
		p.giveBack(n)
	}
	return err
}

// giveBack is for n bytes that were spent, and not read.
func (p *pace) giveBack(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.free = p.mu.free.Add(-time.Duration(float64(n) / float64(p.perSecond) * float64(time.Second)))
}
