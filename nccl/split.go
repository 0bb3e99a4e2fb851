package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// noColor makes a rank take part in a split that it gets nothing of.
// Source: NCCL_SPLIT_NOCOLOR of nccl.h.
const noColor = -1

// splitFrom says what a communicator is split from.
type splitFrom struct {
	engine *engine
	ranks  []int // of the parent, by rank of the child
}

var _ pg.Splitter = (*Backend)(nil)

// Split implements pg.Splitter: a backend for a subgroup whose communicator
// ncclCommSplit makes out of this one's, in order with the other ops of all
// ranks. It can be configured once; after that it meets anew. ErrUnsupported
// before NCCL 2.18.
func (b *Backend) Split(ranks []int) (pg.Backend, error) {
	parent, err := b.splitFrom(ranks)
	if err != nil {
		return nil, err
	}
	child, err := New(b.opt)
	if err != nil {
		return nil, err
	}
	child.parent = parent
	return child, nil
}

func (b *Backend) splitFrom(ranks []int) (*splitFrom, error) {
	if err := b.opt.Library.need(Split); err != nil {
		return nil, err
	}
	e, err := b.current()
	if err != nil {
		return nil, err
	}
	return &splitFrom{e, slices.Clone(ranks)}, nil
}

// SitOut implements pg.Splitter.
func (b *Backend) SitOut(ctx context.Context) error {
	from, err := b.splitFrom(nil)
	if err != nil {
		return err
	}
	_, err = from.engine.part(ctx, noColor, 0)
	return err
}

// split makes the communicator of e out of the parent's.
func (e *engine) split(ctx context.Context) error {
	p := e.parent
	if len(p.ranks) != e.cfg.WorldSize() || p.ranks[e.cfg.Rank] != p.engine.cfg.Rank {
		return fmt.Errorf("nccl: split for ranks %v of the parent configured as rank %d of %d", p.ranks, e.cfg.Rank, e.cfg.WorldSize())
	}
	raw, err := p.engine.part(ctx, p.ranks[0], e.cfg.Rank)
	if err != nil {
		return fmt.Errorf("split the communicator of quorum %d: %w", p.engine.cfg.QuorumID, err)
	}
	return e.adopt(ctx, raw, "ncclCommSplit")
}

// adopt makes raw the communicator of e, and waits until all ranks have it.
func (e *engine) adopt(ctx context.Context, raw comm, what string) error {
	c := newCommunicator(e.opt.Library, e.opt.Device, raw)
	e.began(c)
	return c.settle(ctx, what)
}

// part takes part in a split of e's communicator, in order with its ops. The
// result is 0 for noColor.
func (e *engine) part(ctx context.Context, color, key int) (comm, error) {
	const unwanted = ^uintptr(0)
	var born atomic.Uintptr // the communicator once there is one; unwanted once nothing waits for it
	op := &pg.Op{Kind: pg.KindBarrier}
	if deadline, ok := ctx.Deadline(); ok {
		op.Deadline = deadline
	}
	w := e.take(&task{op: op, special: func(ctx context.Context) error {
		raw, err := e.splitCall(ctx, color, key)
		if err == nil && raw != 0 && !born.CompareAndSwap(0, uintptr(raw)) {
			err = e.discard(raw)
		}
		return err
	}})
	if err := w.Wait(ctx); err != nil {
		if raw := comm(born.Swap(unwanted)); raw != 0 {
			err = errors.Join(err, e.discard(raw))
		}
		return 0, err
	}
	return comm(born.Load()), nil
}

// discard ends a communicator that came too late.
func (e *engine) discard(raw comm) error {
	return newCommunicator(e.opt.Library, e.opt.Device, raw).abort(e.opt.AbortLimit, nil)
}

// splitCall calls ncclCommSplit. The library fills in the result when the parent
// is through with the call, so that it lies in memory that stays: if that does
// not come about, for ever.
func (e *engine) splitCall(ctx context.Context, color, key int) (comm, error) {
	return e.comm.make(ctx, "ncclCommSplit", func(raw comm, out *comm, cfg *config) int32 {
		return e.opt.Library.f.split(raw, int32(color), int32(key), out, cfg)
	})
}

// make calls what makes a communicator out of c, and waits for it.
func (c *communicator) make(ctx context.Context, what string, call func(raw comm, out *comm, cfg *config) int32) (comm, error) {
	memory, err := c.dev.driver.AllocHost(int64(unsafe.Sizeof(comm(0))))
	if err != nil {
		return 0, fmt.Errorf("memory for the result of %s: %w", what, err)
	}
	clear(memory)
	out := (*comm)(unsafe.Pointer(unsafe.SliceData(memory)))
	cfg := defaults()
	var before int32
	err = c.use(func(raw comm) error {
		if before, err = c.state(raw); err != nil {
			return err
		}
		return c.lib.check(what, call(raw, out, &cfg), raw)
	})
	runtime.KeepAlive(&cfg)
	if err == nil {
		err = c.await(ctx, what, func() (bool, error) { return c.made(what, before, out) })
	}
	if err != nil {
		return 0, err
	}
	raw := *out
	return raw, c.dev.driver.FreeHost(memory)
}

// made tells whether what c was asked to make is there. An error that c had before
// stays with it, and is none of the call's: then the result tells.
func (c *communicator) made(what string, before int32, out *comm) (done bool, err error) {
	err = c.use(func(raw comm) error {
		state, err := c.state(raw)
		switch {
		case err != nil || state == ncclInProgress:
			return err
		case state != ncclSuccess && state == before:
			done = atomic.LoadUintptr((*uintptr)(out)) != 0
			return nil
		}
		done = true
		return c.lib.check(what, state, raw)
	})
	return done, err
}
