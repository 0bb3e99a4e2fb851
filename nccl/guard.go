package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/nccl/internal/pause"
	"github.com/skerry-ft/skerry/pg"
)

// guard waits for a deadline, a cause or the end, and then ends the epoch.
func (e *engine) guard() {
	tick := time.NewTicker(deadlineEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.broken:
			e.shut()
			return
		case <-e.ran:
			if e.cause() != nil {
				e.shut()
			} else { // closed in good order
				e.tell(noteClosed, pg.ErrClosed)
				e.tidy(e.comm.close(e.opt.AbortLimit))
			}
			return
		case now := <-tick.C:
			e.inquireBefore(now)
			if t := e.overdue(now); t != nil {
				late := fmt.Errorf("not done at its deadline: %w", context.DeadlineExceeded)
				e.fail(e.wrap(t.op, e.withRAS(late)), true)
			} else if err := e.deserted(now); err != nil {
				e.fail(err, true)
			}
		}
	}
}

// deadlineEvery is how exact deadlines are.
const deadlineEvery = 10 * time.Millisecond

// closeGrace is how long ops may still need after a peer has closed in good
// order: it is through with all that it took part in, we may be slower.
const closeGrace = time.Second

// deserted tells that ops wait for a peer that has closed.
func (e *engine) deserted(now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.gone == nil || now.Sub(e.mu.goneAt) < closeGrace || len(e.mu.flying)+len(e.mu.queue) == 0 {
		return nil
	}
	return e.mu.gone
}

func (e *engine) overdue(now time.Time) *task {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, all := range [2][]*task{e.mu.flying, e.mu.queue} {
		for _, t := range all {
			if now.After(t.deadline) {
				return t
			}
		}
	}
	return nil
}

// shut ends a broken epoch: the others are told, the communicator is stopped,
// and every op fails once the device is through with it, or AbortLimit is over.
func (e *engine) shut() {
	e.mu.Lock()
	cause, local := e.mu.err, e.mu.local
	e.mu.Unlock()
	told := make(chan struct{})
	go func() { // beside the rest: the store may be gone with who is dead
		defer close(told)
		if local {
			e.tell(noteAborted, cause)
		}
	}()
	if local {
		e.heardRAS()
	}
	e.stop()
	began := time.Now()
	var late error
	halted := make(chan struct{})
	go func() {
		defer close(halted)
		late = e.halt()
	}()
	err := e.letGo(halted, &late)
	e.mu.Lock()
	flying := e.mu.flying
	e.mu.flying = nil
	e.mu.Unlock()
	for _, t := range flying {
		e.finish(t, errors.Join(e.opError(t.op, cause), err))
	}
	e.refuseQueued(cause)
	if err == nil {
		e.passed() // the next epoch may begin
	}
	drained := time.Since(began)
	<-halted
	e.mu.Lock()
	e.mu.late = abandonedOnly(late)
	e.mu.Unlock()
	err = errors.Join(err, late)
	e.opt.Log.Debug().Int("ops", len(flying)).Dur("ops_ended_ms", drained).Dur("aborted_ms", time.Since(began)).Msg("communicator stopped")
	<-told
	e.tidy(err)
}

// launching says that the library was not through with the launch of an op when the
// engine's thread left it.
func (e *engine) launching() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.mu.flying, func(t *task) bool { return t.done == 0 })
}

// letGo waits until no call and no kernel of the epoch is under way any more: they look
// at a flag that the abort sets. The abort goes on for longer, until halted is closed, with
// *err: see ADR 0028. The error of letGo wraps ErrAbandoned.
func (e *engine) letGo(halted <-chan struct{}, err *error) error {
	limit := e.opt.AbortLimit
	done, left := make(chan error, 1), make(chan struct{})
	defer close(left)
	go func() {
		select {
		case <-e.ran:
		case <-left: // a call that does not return
			return
		}
		if e.launching() { // a thread of the library may still put something on the stream
			<-halted
		}
		done <- e.drained(limit + limit/2)
	}()
	select {
	case err := <-done:
		return err
	case <-halted:
		if err := abandonedOnly(*err); err != nil {
			return err
		}
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
	}
	e.dropKept() // what the thread is in may be what an abort ends; nothing is to be made of it
	select {
	case <-e.ran:
		return <-done // bounded
	default:
		return fmt.Errorf("%w: a call of its thread had not ended %v after the abort", ErrAbandoned, limit)
	}
}

// halt stops the communicator: a revoke, where there is one, lets go of the ops in
// flight before the abort, which also takes everything down. With Options.Shrink
// the revoked communicator stays for the next epoch.
func (e *engine) halt() error {
	if e.opt.Library.Has(Revoke) {
		err := e.comm.revoke(e.opt.AbortLimit / 2)
		switch {
		case err != nil:
			e.opt.Log.Warn().Err(err).Msg("communicator not revoked")
			return errors.Join(abandonedOnly(err), e.comm.abort(e.opt.AbortLimit, e.past))
		case e.opt.Shrink && e.cfg.WorldSize() > 1:
			e.mu.Lock()
			e.mu.kept = true
			e.mu.Unlock()
			return nil
		}
	}
	return e.comm.abort(e.opt.AbortLimit, e.past)
}

// refuseQueued fails what was never launched. The group is broken, so that no
// more comes.
func (e *engine) refuseQueued(cause error) {
	e.mu.Lock()
	queued := e.mu.queue
	e.mu.queue = nil
	e.mu.Unlock()
	for _, t := range queued {
		e.finish(t, e.opError(t.op, cause))
	}
}

// opError is the group's cause as the error of one of its ops.
func (e *engine) opError(op *pg.Op, cause error) error {
	if _, ok := errors.AsType[*pg.OpError](cause); ok {
		return cause
	}
	return e.wrap(op, cause)
}

// drained waits until the stream has come to its end, as an abort makes it.
func (e *engine) drained(limit time.Duration) error {
	return within(limit, "the stream", func() error {
		return e.opt.Device.Do(func() error {
			d := e.opt.Device.driver
			end, err := d.Record(e.stream)
			if err != nil {
				return err
			}
			if err := d.Synchronize(end, limit-limit/8); err != nil {
				return fmt.Errorf("%w: %w", ErrAbandoned, err)
			}
			return d.DestroyEvent(end)
		})
	})
}

// tidy releases the stream and the scratch memory, unless the library may still
// use them.
func (e *engine) tidy(err error) {
	defer close(e.ended)
	defer e.passed()
	e.mu.Lock()
	e.stop() // under the lock: nobody begins to listen any more
	e.mu.Unlock()
	e.lose()
	e.listening.Wait()
	if e.store != nil {
		if err := e.store.Close(); err != nil {
			e.opt.Log.Debug().Err(err).Msg("rendezvous store closed with an error")
		}
	}
	if errors.Is(err, ErrAbandoned) {
		e.opt.Log.Error().Err(err).Msg("communicator abandoned")
		e.mu.Lock()
		e.mu.abandoned = err
		e.mu.Unlock()
		return
	}
	d := e.opt.Device.driver
	if e.scratch != nil {
		err = errors.Join(err, e.scratch.Close())
	}
	if e.stream != 0 {
		err = errors.Join(err, e.opt.Device.Do(func() error { return d.DestroyStream(e.stream) }))
	}
	if err != nil {
		e.opt.Log.Warn().Err(err).Msg("communicator closed with errors")
	}
}

func (e *engine) passed() { e.passedOnce.Do(func() { close(e.past) }) }

// leave ends the epoch: in good order if nothing is under way, else by an abort.
// Closing is told to the others either way, since they cannot go on without us.
func (e *engine) leave(cause error) {
	e.mu.Lock()
	idle := len(e.mu.queue) == 0 && len(e.mu.flying) == 0 && e.mu.err == nil && e.comm != nil
	if idle {
		e.mu.closing = true
	}
	e.mu.Unlock()
	if !idle {
		e.fail(cause, true)
	}
	e.kick()
}

// leftover is what the library kept of an epoch that has ended, and what of that its abort
// left behind, which an op's error need not have said.
func (e *engine) leftover() (any, late error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.abandoned, e.mu.late
}

// launchedAll waits until nothing is queued any more.
func (e *engine) launchedAll(ctx context.Context) error {
	for {
		e.mu.Lock()
		left, err := len(e.mu.queue), e.mu.err
		for _, t := range e.mu.flying {
			if t.done == 0 {
				left++
			}
		}
		e.mu.Unlock()
		if left == 0 || err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, pause.Nap); err != nil {
			return err
		}
	}
}
