package torchft

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
)

// callers counts the connections of ranks, as a stats.Handler of the RPC server. A
// rank of torchft's keeps its connection for as long as it lives. It is safe for
// concurrent use.
type callers struct {
	stay time.Duration // for how long the last one counts after it has gone

	mu    sync.Mutex
	count int
	gone  time.Time // when the last one went; zero: none has
}

// there says whether a rank is connected, or was a moment ago.
func (c *callers) there() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count > 0 || !c.gone.IsZero() && time.Since(c.gone) < c.stay
}

// HandleConn implements stats.Handler.
func (c *callers) HandleConn(_ context.Context, s stats.ConnStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s.(type) {
	case *stats.ConnBegin:
		c.count++
	case *stats.ConnEnd:
		c.count--
		c.gone = time.Now()
	}
}

// TagConn implements stats.Handler.
func (c *callers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements stats.Handler.
func (c *callers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (c *callers) HandleRPC(context.Context, stats.RPCStats) {}
