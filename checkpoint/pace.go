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

// wait spends n bytes, and returns when it is their turn, or ctx has ended.
func (p *pace) wait(ctx context.Context, n int64) error {
	now := time.Now()
	p.mu.Lock()
	if oldest := now.Add(-paceBurst); p.mu.free.Before(oldest) {
		p.mu.free = oldest
	}
	turn := p.mu.free
	p.mu.free = turn.Add(time.Duration(float64(n) / float64(p.perSecond) * float64(time.Second)))
	p.mu.Unlock()
	if !turn.After(now) {
		return nil
	}
	return backoff.Sleep(ctx, turn.Sub(now))
}
