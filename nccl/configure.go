package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
)

// Configure implements pg.Backend.
func (b *Backend) Configure(ctx context.Context, cfg pg.Config) error {
	b.configMu.Lock()
	defer b.configMu.Unlock()
	e, old, err := b.enter(cfg)
	if err != nil {
		return fmt.Errorf("configure %v: %w", cfg.Epoch(), err)
	}
	if old != nil {
		old.fail(fmt.Errorf("nccl: this rank moves on to quorum %d", cfg.QuorumID), true)
		if err := b.part(ctx, old); err != nil {
			err = fmt.Errorf("configure %v: %w", cfg.Epoch(), err)
			e.fail(err, true)
			e.refuseQueued(err)
			e.tidy(nil)
			return err
		}
	}
	e.before, e.parent, b.parent = old, b.parent, nil
	defer e.dropBefore()
	if err := e.configure(ctx); err != nil {
		err = fmt.Errorf("configure %v as rank %d of %d: %w", cfg.Epoch(), cfg.Rank, cfg.WorldSize(), err)
		e.fail(err, true)
		return err
	}
	b.opt.Log.Info().Int64(logkey.QuorumID, cfg.QuorumID).Int(logkey.ReplicaRank, cfg.Rank).
		Int(logkey.WorldSize, cfg.WorldSize()).Stringer("nccl", b.opt.Library.Version()).Msg("group configured")
	return nil
}

// mostLeaving is how many epochs may be going down: each has memory of the device.
const mostLeaving = 2

// part waits until no op of old is under way; the rest goes down beside the next epoch.
// With Options.Shrink all is waited for, since the next one may be made of it.
func (b *Backend) part(ctx context.Context, old *engine) error {
	if b.opt.Shrink {
		enough := time.AfterFunc(tellHurry, old.lose)
		<-old.ended
		enough.Stop()
		return nil
	}
	<-old.past
	for b.leaving = append(b.leaving, old); len(b.leaving) > mostLeaving; b.leaving = b.leaving[1:] {
		select {
		case <-b.leaving[0].ended:
		case <-ctx.Done():
			return fmt.Errorf("wait for the communicator of %v, which is being aborted: %w", b.leaving[0].cfg.Epoch(), context.Cause(ctx))
		}
	}
	return nil
}

// enter checks cfg and makes the engine that Abort and Close reach from now on.
func (b *Backend) enter(cfg pg.Config) (e, old *engine, err error) {
	if n := cfg.WorldSize(); n < 1 || cfg.Rank < 0 || cfg.Rank >= n {
		return nil, nil, fmt.Errorf("nccl: rank %d of %d, want 0 to %d", cfg.Rank, n, n-1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, nil, pg.ErrClosed
	}
	if err := b.mu.used.Use(&cfg); err != nil {
		return nil, nil, err
	}
	old = b.mu.engine
	e = newEngine(&b.opt, cfg)
	b.mu.engine, b.mu.err = e, nil
	return e, old, nil
}

func newEngine(opt *Options, cfg pg.Config) *engine {
	ctx, stop := context.WithCancel(context.Background())
	found, lose := context.WithCancel(context.Background())
	return &engine{
		opt: opt, cfg: cfg, ctx: ctx, stop: stop, found: found, lose: lose,
		wake: make(chan struct{}, 1), broken: make(chan struct{}),
		ran: make(chan struct{}), past: make(chan struct{}), ended: make(chan struct{}),
	}
}

// configure connects the ranks and starts the engine. Whatever happens, ended is
// closed once nothing of it is left.
func (e *engine) configure(ctx context.Context) error {
	err := e.connectWithin(ctx)
	if err == nil {
		go e.run()
		go e.guard()
		e.listening.Go(e.listen)
		return nil
	}
	if first := e.cause(); first != nil {
		err = errors.Join(first, err)
	}
	e.fail(err, true)
	if e.store != nil {
		e.tell(noteAborted, err)
	}
	e.refuseQueued(err) // what came meanwhile
	e.tidy(errors.Join(e.abortInit(), abandonedOnly(err)))
	return err
}

// connectWithin bounds connect, and ends it when the epoch is aborted.
func (e *engine) connectWithin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.OpTimeout())
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	e.listening.Go(func() {
		select {
		case <-e.broken:
			cancelCause(e.cause())
		case <-ctx.Done():
		}
	})
	defer cancelCause(nil)
	return e.connect(ctx)
}

// abandonedOnly is err if it says that something was abandoned.
func abandonedOnly(err error) error {
	if errors.Is(err, ErrAbandoned) {
		return err
	}
	return nil
}

// connect opens the store, the stream and the communicator. A split comes first: the
// other ranks of the parent wait in theirs, and the parent with them, for one that
// has failed at anything else.
func (e *engine) connect(ctx context.Context) error {
	if e.parent != nil {
		if err := e.initBy(ctx, "ncclCommSplit", e.split); err != nil {
			return err
		}
	}
	s, err := e.cfg.OpenStore(ctx)
	if err != nil {
		return err
	}
	e.store = s
	d := e.opt.Device
	if e.scratch, err = d.Alloc(scratchBytes); err != nil {
		return err
	}
	e.stream, err = doing(d, func() (Stream, error) { return d.driver.NewStream(e.opt.HighPriority) })
	if err != nil {
		return err
	}
	if e.parent != nil {
		return nil
	}
	how, err := e.meet(ctx, first, e.offer())
	if err == nil && how.shrink {
		if how, err = e.tryShrink(ctx); err == nil && how.shrink {
			return nil
		}
	}
	if err != nil {
		return err
	}
	e.dropBefore()
	return e.initBy(ctx, "ncclCommInitRankConfig", func(ctx context.Context) error {
		return e.initRank(ctx, how.id)
	})
}

// initBy makes the communicator on a thread of its own, which is left behind when
// the library does not return from it.
func (e *engine) initBy(ctx context.Context, what string, by func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- e.opt.Device.Do(func() error { return by(ctx) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	return errors.Join(context.Cause(ctx), within(e.opt.AbortLimit, what, func() error {
		<-done
		return nil
	}))
}

// began notes the communicator while it is still being made.
func (e *engine) began(c *communicator) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.comm = c
}

// abortInit aborts a communicator that was not finished.
func (e *engine) abortInit() error {
	e.mu.Lock()
	c := e.comm
	e.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.abort(e.opt.AbortLimit, nil)
}
