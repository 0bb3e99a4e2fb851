package baby

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
)

// usedPrefixes is how many used prefixes a Backend remembers.
const usedPrefixes = 4096

// history is the prefixes and the epoch that were used: a child knows nothing
// of those before it.
type history struct {
	prefixes map[string]bool
	order    []string
	last     pg.Epoch
}

func (h *history) check(c *pg.Config) error {
	switch {
	case c.Cluster == h.last.Cluster && c.QuorumID <= h.last.QuorumID:
		return fmt.Errorf("%w: quorum id %d after %d", pg.ErrUsedPrefix, c.QuorumID, h.last.QuorumID)
	case h.prefixes[c.StoreAddress]:
		return fmt.Errorf("%w: %s", pg.ErrUsedPrefix, c.StoreAddress)
	}
	return nil
}

func (h *history) add(c *pg.Config) {
	if h.prefixes == nil {
		h.prefixes = make(map[string]bool)
	}
	h.last = c.Epoch()
	h.prefixes[c.StoreAddress] = true
	h.order = append(h.order, c.StoreAddress)
	if len(h.order) > usedPrefixes {
		delete(h.prefixes, h.order[0])
		h.order = h.order[1:]
	}
}

// Configure implements pg.Backend: it ends the child before and configures a
// new one, the spare if there is one.
func (b *Backend) Configure(ctx context.Context, cfg pg.Config) error {
	b.configMu.Lock()
	defer b.configMu.Unlock()
	old, err := b.enter(&cfg)
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
	b.mu.Lock()
	b.mu.cfg, b.mu.hadGroup = cfg, true
	spare := b.opt.Spare && b.mu.spare == nil && !b.mu.closed
	b.mu.Unlock()
	b.opt.Log.Info().Int64(logkey.QuorumID, cfg.QuorumID).Int(logkey.ReplicaRank, cfg.Rank).
		Int(logkey.WorldSize, cfg.WorldSize()).Int("child_pid", c.proc.PID()).Msg("group configured in a child")
	if spare {
		b.running.Go(b.refill)
	}
	return nil
}

// enter checks cfg and takes the child before out of use.
func (b *Backend) enter(cfg *pg.Config) (old *child, err error) {
	if cfg.Store != nil {
		return nil, fmt.Errorf("%w: a store in this process's memory is out of the child's reach; give the address of a TCP store",
			pg.ErrUnsupported)
	}
	if n := cfg.WorldSize(); n < 1 || cfg.Rank < 0 || cfg.Rank >= n {
		return nil, fmt.Errorf("baby: rank %d of %d, want 0 to %d", cfg.Rank, n, n-1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, pg.ErrClosed
	}
	if err := b.mu.used.check(cfg); err != nil {
		return nil, err
	}
	b.mu.used.add(cfg)
	old, b.mu.child = b.mu.child, nil
	b.mu.round = cfg.Round
	b.mu.err = fmt.Errorf("quorum %d is being configured", cfg.QuorumID)
	return old, nil
}

// child takes the spare, or starts a process, and waits until it is ready.
func (b *Backend) child(ctx context.Context) (*child, error) {
	b.mu.Lock()
	c := b.mu.spare
	b.mu.spare = nil
	b.mu.Unlock()
	if c != nil {
		select {
		case <-c.gone:
			b.opt.Log.Warn().Err(c.cause()).Msg("spare child had ended")
			c = nil
		default:
		}
	}
	if c == nil {
		var err error
		if c, err = b.start(); err != nil {
			return nil, err
		}
	}
	if err := c.await(ctx); err != nil {
		b.retire(c, err)
		return nil, err
	}
	return c, nil
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
	c.cfg = cfg
	c.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		b.mu.spare = c // for Close, which waits for us
		return pg.ErrClosed
	}
	b.mu.child, b.mu.err = c, nil
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
	if !b.mu.closed && b.mu.child == nil {
		b.mu.err = err
	}
}

// Warm starts the spare that the next Configure takes, if there is none. It
// returns when the spare is ready or ctx ends.
func (b *Backend) Warm(ctx context.Context) error {
	b.configMu.Lock()
	defer b.configMu.Unlock()
	b.mu.Lock()
	c, closed := b.mu.spare, b.mu.closed
	b.mu.Unlock()
	if closed {
		return pg.ErrClosed
	}
	if c == nil {
		var err error
		if c, err = b.start(); err != nil {
			return err
		}
		b.mu.Lock()
		b.mu.spare = c
		b.mu.Unlock()
	}
	return c.await(ctx)
}

// refill starts the next spare beside the group's work.
func (b *Backend) refill() {
	ctx, cancel := context.WithTimeout(context.Background(), pg.DefaultTimeout)
	defer cancel()
	if err := b.Warm(ctx); err != nil && !errors.Is(err, pg.ErrClosed) {
		b.opt.Log.Warn().Err(err).Msg("spare child did not start")
	}
}
