package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/nccl/internal/pause"
)

// ErrAbandoned is part of the error of whatever the library did not give back in
// time: a thread that is still inside it, and the memory of ops that it may
// still touch. Only the end of the process ends those; a Baby's process is a
// child.
var ErrAbandoned = errors.New("nccl: the library did not return; its memory is abandoned")

// A communicator is an ncclComm_t with one end: destroyed once all its ops are
// done, or aborted, never both.
type communicator struct {
	lib *Library
	dev *Device

	// born is where the library put the handle. NCCL before 2.18 reads it there
	// until the communicator is made, from a thread of its own: it must not be
	// freed before. Source: ncclCommInitRankFunc of 2.14 to 2.17.
	born *comm

	calls sync.Mutex // held over every call that takes the handle but those that end it

	mu struct {
		sync.Mutex

		c     comm
		ended bool
		ops   map[preMul]int32 // registered reduce ops
	}
}

// preMul names a registered premul-sum.
type preMul struct {
	dtype  int32
	factor float64
}

func newCommunicator(lib *Library, dev *Device, raw comm) *communicator {
	c := &communicator{lib: lib, dev: dev}
	c.mu.c, c.mu.ops = raw, make(map[preMul]int32)
	return c
}

// initRank makes the communicator of e; it returns when all ranks have. The caller's
// thread has the device current. abort ends it.
func (e *engine) initRank(ctx context.Context, id UniqueID) error {
	const what = "ncclCommInitRankConfig"
	lib, cfg, born := e.opt.Library, defaults(), new(comm)
	code := lib.f.init(born, int32(e.cfg.WorldSize()), idByValue{id}, int32(e.cfg.Rank), &cfg)
	runtime.KeepAlive(&cfg)
	raw := *born
	c := newCommunicator(lib, e.opt.Device, raw)
	c.born = born
	if raw != 0 { // also with an error, which is the communicator's then
		e.began(c)
	}
	if err := lib.check(what, code, raw); err != nil {
		return err
	}
	return c.settle(ctx, what)
}

// settle waits until the last non-blocking call is through.
func (c *communicator) settle(ctx context.Context, what string) error {
	return c.await(ctx, what, func() (bool, error) { return c.poll(what) })
}

// await asks until something is done.
func (c *communicator) await(ctx context.Context, what string, ask func() (done bool, err error)) error {
	for between := (pause.Pause{}); ; {
		done, err := ask()
		if done || err != nil {
			return err
		}
		if err := between.Wait(ctx, nil); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// poll asks the communicator: done is false while a call is under way.
func (c *communicator) poll(what string) (done bool, err error) {
	err = c.use(func(raw comm) error {
		state, err := c.state(raw)
		if err != nil {
			return err
		}
		done = state != ncclInProgress
		if !done {
			return nil
		}
		return c.lib.check(what, state, raw)
	})
	if errors.Is(err, errEnded) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return done || err != nil, err
}

// state is the result of the last non-blocking call, ncclInProgress while it is under
// way.
func (c *communicator) state(raw comm) (state int32, err error) {
	err = c.lib.check("ncclCommGetAsyncError", c.lib.f.asyncError(raw, &state), raw)
	return state, err
}

// use makes calls with the handle, which an abort by another thread frees: it
// waits callGrace for them to return.
func (c *communicator) use(calls func(raw comm) error) error {
	c.calls.Lock()
	defer c.calls.Unlock()
	raw, ok := c.handle()
	if !ok {
		return errEnded
	}
	return calls(raw)
}

// callGrace is how long an abort waits for a call to return by itself. One that
// hangs is what the abort is for.
const callGrace = 20 * time.Millisecond

// settleCalls waits until no call uses the handle, or callGrace is over.
func (c *communicator) settleCalls() {
	for until := time.Now().Add(callGrace); !c.calls.TryLock(); {
		if time.Now().After(until) {
			return
		}
		runtime.Gosched()
	}
	c.calls.Unlock()
}

var errEnded = errors.New("nccl: the communicator has ended")

// handle is the library's, as long as the communicator has not ended.
func (c *communicator) handle() (comm, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.c, !c.mu.ended
}

// end takes the handle for the one who ends it; ok is false for all others.
func (c *communicator) end() (comm, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended {
		return 0, false
	}
	c.mu.ended = true
	return c.mu.c, true
}

// abort ends the communicator, whatever is under way. It returns ErrAbandoned
// if the library does not within limit, or a time more if past is closed by then (see
// withinBeside); a goroutine stays in it then.
func (c *communicator) abort(limit time.Duration, past <-chan struct{}) error {
	raw, ok := c.end()
	if !ok {
		return nil
	}
	c.settleCalls()
	return withinBeside(limit, past, "ncclCommAbort", func() error {
		return c.dev.Do(func() error { return c.lib.check("ncclCommAbort", c.lib.f.abort(raw), 0) })
	})
}

// revoke stops what is in flight, and keeps the handle: only making others out of
// it, and ending it, are allowed afterwards. It does not wait for calls that
// hang: it may be what ends them. One that hangs itself is ended by the abort,
// which frees the handle: it must not be touched after that.
//
// Source: nccl.h of 2.32.3 at ncclCommRevoke: the state is ncclInProgress until
// the communicator is quiescent; finalize is invalid then.
func (c *communicator) revoke(limit time.Duration) error {
	c.settleCalls()
	return within(limit, "ncclCommRevoke", func() error {
		raw, ok := c.handle()
		if !ok {
			return errEnded
		}
		err := c.dev.Do(func() error { return c.lib.check("ncclCommRevoke", c.lib.f.revoke(raw, 0), raw) })
		for until := time.Now().Add(limit / 2); err == nil; time.Sleep(pause.Most) {
			if done, err := c.quiescent(); done || err != nil {
				return err
			}
			if time.Now().After(until) {
				return fmt.Errorf("ncclCommRevoke: not quiescent after %v", limit/2)
			}
		}
		return err
	})
}

// quiescent tells whether a revoke is through. A call that has not come back yet
// is not waited for. An error that was there before is why we are here.
func (c *communicator) quiescent() (bool, error) {
	if !c.calls.TryLock() {
		return false, nil
	}
	defer c.calls.Unlock()
	raw, ok := c.handle()
	if !ok {
		return false, errEnded
	}
	state, err := c.state(raw)
	return state != ncclInProgress, err
}

// close ends an idle communicator in good order, and aborts it if that does not
// work within limit.
func (c *communicator) close(limit time.Duration) error {
	raw, ok := c.handle()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := within(limit, "ncclRedOpDestroy", func() error { return c.use(c.destroyOps) }); err != nil {
		return errors.Join(err, c.abort(limit, nil))
	}
	err := within(limit, "ncclCommFinalize", func() error {
		return c.dev.Do(func() error { return c.lib.check("ncclCommFinalize", c.lib.f.finalize(raw), raw) })
	})
	if err == nil {
		err = c.settle(ctx, "ncclCommFinalize")
	}
	if err != nil {
		return errors.Join(err, c.abort(limit, nil))
	}
	if raw, ok = c.end(); !ok {
		return nil
	}
	return within(limit, "ncclCommDestroy", func() error {
		return c.dev.Do(func() error { return c.lib.check("ncclCommDestroy", c.lib.f.destroy(raw), 0) })
	})
}

// within runs a call into the library that may hang, and gives up waiting for it
// after limit.
func within(limit time.Duration, what string, call func() error) error {
	return withinBeside(limit, nil, what, call)
}

// besideLimits is how many times limit a call gets beside which others go on.
const besideLimits = 6

// withinBeside is within, but gives the call longer if past is closed by limit: no op waits
// for it any more, and what it does (freeing memory of the device) may wait for kernels that
// have started since.
func withinBeside(limit time.Duration, past <-chan struct{}, what string, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }() // abandoned when the library keeps it
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
		}
		select {
		case <-past:
			limit, past = (besideLimits-1)*limit, nil
		default:
			return fmt.Errorf("%w: %s had not returned after %v", ErrAbandoned, what, limit)
		}
	}
}

// maxOps bounds the reduce ops that are kept registered: a factor may be another
// one at every step.
const maxOps = 32

// trimOps forgets all registered ops if there are many. Only between groups: an
// op may be destroyed once the last call that takes it has returned.
func (c *communicator) trimOps(raw comm) error {
	if len(c.mu.ops) <= maxOps {
		return nil
	}
	return c.destroyOps(raw)
}

// destroyOps destroys all registered ops. An abort does as much.
func (c *communicator) destroyOps(raw comm) error {
	for key, op := range c.mu.ops { // only the launching thread, or who comes after it
		if err := c.lib.check("ncclRedOpDestroy", c.lib.f.destroyOp(op, raw), raw); err != nil {
			return err
		}
		delete(c.mu.ops, key)
	}
	return nil
}

// preMulSum registers the reduce op that multiplies by factor first.
func (c *communicator) preMulSum(raw comm, dtype int32, factor float64) (int32, error) {
	key := preMul{dtype, factor}
	if op, ok := c.mu.ops[key]; ok { // only the launching thread comes here
		return op, nil
	}
	if err := c.lib.need(RegisterOp); err != nil {
		return 0, err
	}
	value, err := scalar(dtype, factor)
	if err != nil {
		return 0, err
	}
	var op int32
	const hostImmediate = 1
	code := c.lib.f.preMulSum(&op, pointerOf(value), dtype, hostImmediate, raw)
	runtime.KeepAlive(value)
	if err := c.lib.check("ncclRedOpCreatePreMulSum", code, raw); err != nil {
		return 0, err
	}
	c.mu.ops[key] = op
	return op, nil
}
