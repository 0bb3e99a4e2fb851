package baby

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// entering is the Configure that is under way, if any.
type entering struct {
	epoch  pg.Epoch
	cancel context.CancelCauseFunc // nil: none
}

// Configure implements pg.Backend: it ends the child before and configures a
// new one, the spare if there is one. Without a deadline of ctx it takes at most
// cfg.Timeout, or pg.DefaultTimeout; Abort and Close end it.
func (b *Backend) Configure(ctx context.Context, cfg pg.Config) error {
	b.configMu.Lock()
	defer b.configMu.Unlock()
	ctx, cancel := b.untilClosed(ctx)
	defer cancel(nil)
	if _, ok := ctx.Deadline(); !ok {
		var release context.CancelFunc
		ctx, release = context.WithTimeout(ctx, cfg.OpTimeout())
		defer release()
	}
	old, err := b.enter(&cfg, cancel)
	if err != nil {
		return fmt.Errorf("configure %v: %w", cfg.Epoch(), err)
	}
	if old != nil {
		b.retire(old, fmt.Errorf("baby: this rank moves on to quorum %d", cfg.QuorumID))
	}
	c, err := b.child(ctx)
	if err == nil {
		err = b.begin(c, cfg)
	}
	if err == nil {
		err = c.configure(ctx)
	}
	if err != nil {
		err = fmt.Errorf("configure %v as rank %d of %d: %w", cfg.Epoch(), cfg.Rank, cfg.WorldSize(), err)
		b.failed(c, err)
		return err
	}
	b.configured(c, &cfg)
	return nil
}

// untilClosed ends ctx when b is closed. The function that it returns must be
// called.
func (b *Backend) untilClosed(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.life, func() { cancel(pg.ErrClosed) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// configured notes that the group is c's, and sees to the next spare.
func (b *Backend) configured(c *child, cfg *pg.Config) {
	b.mu.Lock()
	b.mu.cfg, b.mu.hadGroup, b.mu.entering = *cfg, true, entering{}
	spare := b.opt.Spare && b.mu.spare == nil && !b.mu.closed
	if spare {
		b.running.Go(b.refill)
	}
	b.mu.Unlock()
	b.opt.Log.Debug().Int64(logkey.QuorumID, cfg.QuorumID).Int(logkey.ReplicaRank, cfg.Rank).
		Int(logkey.WorldSize, cfg.WorldSize()).Int("child_pid", c.proc.PID()).Msg("group configured in a child")
}

// enter checks cfg and takes the child before out of use.
func (b *Backend) enter(cfg *pg.Config, cancel context.CancelCauseFunc) (old *child, err error) {
	if cfg.Store != nil {
		return nil, fmt.Errorf("%w: a store in this process's memory is out of the child's reach; give the address of a TCP store",
			pg.ErrUnsupported)
	}
	if t := cfg.TLS; t != nil && t.Files == (store.TLSFiles{}) {
		return nil, fmt.Errorf("%w: TLS without Files, from which the child would make its own; see package store/certs", pg.ErrUnsupported)
	}
	if n := cfg.WorldSize(); n < 1 || cfg.Rank < 0 || cfg.Rank >= n {
		return nil, fmt.Errorf("baby: rank %d of %d, want 0 to %d", cfg.Rank, n, n-1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, pg.ErrClosed
	}
	if err := b.mu.used.Use(cfg); err != nil { // the child knows nothing of those before it
		return nil, err
	}
	old, b.mu.child = b.mu.child, nil
	b.mu.entering = entering{cfg.Epoch(), cancel}
	b.mu.err = fmt.Errorf("quorum %d is being configured", cfg.QuorumID)
	return old, nil
}

// child takes the spare, if it is ready, or starts a process and waits until that
// is. A spare that takes long to start costs nobody anything.
func (b *Backend) child(ctx context.Context) (*child, error) {
	if c := b.takeSpare(); c != nil {
		return c, nil
	}
	c, err := b.start()
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx); err != nil {
		b.retire(c, err)
		return nil, err
	}
	return c, nil
}

// takeSpare is the spare, if there is one that is ready and has not ended.
func (b *Backend) takeSpare() *child {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.mu.spare
	if c == nil {
		return nil
	}
	if c.isGone() {
		b.mu.spare = nil
		b.opt.Log.Warn().Err(c.cause()).Msg("spare child had ended")
		return nil
	}
	select {
	case <-c.ready:
		b.mu.spare = nil
		return c
	default:
		return nil
	}
}

// isGone tells whether the child has ended.
func (c *child) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// start starts a child and the goroutine that reads from it.
func (b *Backend) start() (*child, error) {
	c, err := startChild(&b.opt, &b.mem)
	if err != nil {
		return nil, err
	}
	b.running.Go(c.read)
	return c, nil
}

// await waits until the child is ready.
func (c *child) await(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.gone:
		return c.cause()
	case <-ctx.Done():
		return fmt.Errorf("wait for child %d to start: %w", c.proc.PID(), context.Cause(ctx))
	}
}

// begin makes c the child of the group, so that Abort and Close reach it.
func (b *Backend) begin(c *child, cfg pg.Config) error {
	c.mu.Lock()
	c.cfg, c.mu.round = cfg, cfg.Round
	c.mu.Unlock()
	return b.take(c, func() { b.mu.child, b.mu.err = c, nil })
}

// take has keep put c where Close finds it, with the lock held, or ends it if b is
// closed already.
func (b *Backend) take(c *child, keep func()) error {
	b.mu.Lock()
	closed := b.mu.closed
	if !closed {
		keep()
	}
	b.mu.Unlock()
	if closed {
		b.retire(c, pg.ErrClosed) // Close waits for us, and then for it
		return pg.ErrClosed
	}
	return nil
}

// configure has the child configure its backend, and waits for it.
func (c *child) configure(ctx context.Context) error {
	c.mu.Lock()
	if err := c.mu.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.mu.configuring = true
	c.tellLocked(jsonMessage(msgConfigure, &c.cfg), nil)
	c.mu.Unlock()
	select {
	case report := <-c.configured:
		return c.configuredAs(report)
	case <-c.gone:
		return c.cause()
	case <-ctx.Done():
	}
	c.abort(context.Cause(ctx))
	select {
	case <-c.configured: // too late, whatever it says
		c.configuredAs(nil) //nolint:errcheck // the cause is ours
	case <-c.gone: // the watch has killed it
	}
	return context.Cause(ctx)
}

func (c *child) configuredAs(report []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.configuring = false
	err := decodeFault(report, c.mu.cause)
	if err == nil {
		err = c.mu.err
	}
	c.breakLocked(err)
	return err
}

// failed remembers why there is no group.
func (b *Backend) failed(c *child, err error) {
	if c != nil {
		c.fails(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.entering = entering{}
	if !b.mu.closed && b.mu.child == nil {
		b.mu.err = err
	}
}

// Warm starts the spare that the next Configure takes, if there is none. It
// returns when the spare is ready, when ctx ends, or when b is closed.
func (b *Backend) Warm(ctx context.Context) error {
	b.warmMu.Lock()
	defer b.warmMu.Unlock()
	c, err := b.spare()
	if err != nil {
		return err
	}
	ctx, cancel := b.untilClosed(ctx)
	defer cancel(nil)
	return c.await(ctx)
}

// spare is the one that there is, or a new one.
func (b *Backend) spare() (*child, error) {
	b.mu.Lock()
	c, closed := b.mu.spare, b.mu.closed
	b.mu.Unlock()
	if closed {
		return nil, pg.ErrClosed
	}
	if c != nil && !c.isGone() {
		return c, nil
	}
	c, err := b.start()
	if err != nil {
		return nil, err
	}
	return c, b.take(c, func() { b.mu.spare = c })
}

// refill starts the next spare beside the group's work. One that does not become
// ready is given up.
func (b *Backend) refill() {
	ctx, cancel := context.WithTimeout(context.Background(), spareLimit)
	defer cancel()
	err := b.Warm(ctx)
	if err == nil || errors.Is(err, pg.ErrClosed) {
		return
	}
	b.opt.Log.Warn().Err(err).Msg("spare child did not start")
	b.mu.Lock()
	c := b.mu.spare
	b.mu.spare = nil
	b.mu.Unlock()
	if c != nil {
		b.retire(c, err)
	}
}

// spareLimit is how long a spare may take to start.
const spareLimit = pg.DefaultTimeout
