package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// An engine is one epoch: a communicator, a stream, and the ops on it.
type engine struct {
	opt   *Options
	cfg   pg.Config
	store store.Store

	comm    *communicator // set by init, before run
	parent  *splitFrom    // if the communicator is to be split from another
	before  *engine       // of the epoch before, whose communicator may be shrunk
	stream  Stream
	scratch *Buffer

	wake   chan struct{}   // capacity 1: something is queued, or the engine is to stop
	broken chan struct{}   // closed once err is set
	ran    chan struct{}   // closed once run has returned
	ended  chan struct{}   // closed once nothing of this epoch runs any more
	ctx    context.Context // until the epoch is over
	stop   context.CancelFunc

	listening sync.WaitGroup

	mu struct {
		sync.Mutex

		err       error // the first cause
		local     bool  // it arose here, so the others must be told
		comm      *communicator
		queue     []*task
		flying    []*task
		seq       uint64
		closing   bool
		abandoned error // the library kept something
		kept      bool  // the communicator was revoked, and waits to be shrunk
		ras       inquiry
		gone      error // a peer that has closed, as an error
		goneAt    time.Time
	}
}

// A task is an op of the engine.
type task struct {
	op       *pg.Op
	work     *pg.Work
	began    time.Time
	deadline time.Time
	after    Event   // the caller's stream must have come so far
	marks    []Event // and those of the process whose child this is: not ours to destroy
	done     Event   // once launched

	special func(ctx context.Context) error // instead of op's calls
	joint   *joint                          // made together with ops of other devices
}

// take queues t, which has an op and what it waits for.
func (e *engine) take(t *task) *pg.Work {
	op := t.op
	t.began, t.deadline = time.Now(), op.Deadline
	if t.deadline.IsZero() {
		t.deadline = t.began.Add(e.timeout())
	}
	e.mu.Lock()
	if err := e.mu.err; err != nil || e.mu.closing {
		e.mu.Unlock()
		if derr := e.destroy(t.after); derr != nil {
			err = errors.Join(err, derr)
		}
		return pg.Finished(op, errors.Join(pg.ErrAborted, err))
	}
	t.work = pg.NewWork(op)
	for _, sub := range parts(op) {
		if sub.Kind != pg.KindSend && sub.Kind != pg.KindRecv {
			e.mu.seq++
		}
		sub.Seq, sub.Epoch, sub.Round = e.mu.seq, e.cfg.Epoch(), e.cfg.Round
	}
	op.Seq, op.Epoch, op.Round = e.mu.seq, e.cfg.Epoch(), e.cfg.Round
	e.mu.queue = append(e.mu.queue, t)
	work := t.work
	e.mu.Unlock()
	e.kick()
	return work
}

func (e *engine) timeout() time.Duration {
	if e.cfg.Timeout > 0 {
		return e.cfg.Timeout
	}
	return pg.DefaultTimeout
}

func (e *engine) kick() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// fail breaks the group for the first cause; local says that it arose here.
func (e *engine) fail(err error, local bool) {
	if local {
		e.inquireAfter(err)
	}
	e.mu.Lock()
	first := e.mu.err == nil
	if first {
		e.mu.err, e.mu.local = err, local
		close(e.broken)
	}
	e.mu.Unlock()
	if first {
		e.kick()
		if e.opt.broke != nil {
			e.opt.broke(e.cfg.Epoch(), err)
		}
	}
}

func (e *engine) cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.err
}

// run is the life of the engine's thread: it launches what is queued and sees
// what has ended, until the group is broken or closed.
func (e *engine) run() {
	defer close(e.ran)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := e.opt.Device.driver.SetCurrent(e.opt.Device.ctx); err != nil {
		e.fail(err, true)
		return
	}
	idle := pollMin
	for {
		if e.cause() != nil {
			return // guard sees to the rest
		}
		launched, err := e.launchAll()
		if err == nil {
			err = e.collect()
		}
		if err != nil {
			e.fail(err, true)
			return
		}
		e.mu.Lock()
		busy, closing := len(e.mu.flying) > 0, e.mu.closing
		e.mu.Unlock()
		switch {
		case launched:
			idle = pollMin
		case closing && !busy:
			return
		case busy:
			if _, err := e.comm.poll("collective"); err != nil {
				e.fail(err, true)
				return
			}
			e.rest(idle)
			idle = min(2*idle, pollMax)
			continue
		}
		if !busy {
			select {
			case <-e.wake:
			case <-e.broken:
			}
			idle = pollMin
		}
	}
}

// rest waits a little, or until there is something to do.
func (e *engine) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.wake:
	case <-e.broken:
	}
}

// launchAll launches everything queued.
func (e *engine) launchAll() (bool, error) {
	any := false
	for {
		e.mu.Lock()
		if len(e.mu.queue) == 0 || e.mu.err != nil {
			e.mu.Unlock()
			return any, nil
		}
		t := e.mu.queue[0]
		e.mu.queue = e.mu.queue[1:]
		e.mu.flying = append(e.mu.flying, t)
		e.mu.Unlock()
		any = true
		if err := e.launch(t); err != nil {
			return any, e.wrap(t.op, err)
		}
	}
}

func (e *engine) launch(t *task) error {
	d := e.opt.Device.driver
	for _, before := range append(t.marks, t.after) {
		if before == 0 {
			continue
		}
		if err := d.WaitEvent(e.stream, before); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithDeadline(e.ctx, t.deadline)
	defer cancel()
	if err := e.start(ctx, t); err != nil {
		return err
	}
	done, err := d.Record(e.stream)
	if err != nil {
		return err
	}
	e.mu.Lock()
	t.done = done
	e.mu.Unlock()
	return nil
}

// start makes the calls of t, and waits until they are through.
func (e *engine) start(ctx context.Context, t *task) error {
	if t.special != nil {
		return t.special(ctx)
	}
	if t.joint != nil {
		if err := t.joint.arrive(ctx, e, t); err != nil {
			return err
		}
		return e.comm.settle(ctx, t.op.Kind.String())
	}
	if err := e.comm.use(func(raw comm) error { return e.launchOf(raw).run(t.op) }); err != nil {
		return err
	}
	return e.comm.settle(ctx, t.op.Kind.String())
}

func (e *engine) launchOf(raw comm) *launch {
	return &launch{
		c: e.comm, raw: raw, stream: uintptr(e.stream),
		rank: e.cfg.Rank, world: e.cfg.WorldSize(), scratch: e.scratch.Address(),
	}
}

// collect completes what the device has done. The stream is in order.
func (e *engine) collect() error {
	for {
		e.mu.Lock()
		if len(e.mu.flying) == 0 {
			e.mu.Unlock()
			return nil
		}
		t := e.mu.flying[0]
		e.mu.Unlock()
		done, err := e.opt.Device.driver.Query(t.done)
		if err != nil {
			return e.wrap(t.op, err)
		}
		if !done {
			return nil
		}
		e.mu.Lock()
		if e.mu.err != nil { // guard has it
			e.mu.Unlock()
			return nil
		}
		e.mu.flying = slices.Delete(e.mu.flying, 0, 1)
		e.mu.Unlock()
		e.finish(t, nil)
	}
}

// finish ends a task that the device does not touch any more.
func (e *engine) finish(t *task, err error) {
	for _, op := range parts(t.op) {
		if op.Kind == pg.KindRecv {
			op.Source = op.Peer
		}
	}
	if derr := errors.Join(e.destroy(t.after), e.destroy(t.done)); derr != nil {
		e.opt.Log.Warn().Err(derr).Msg("event not destroyed")
	}
	t.work.Complete(err)
	t.work.Release()
}

func (e *engine) destroy(ev Event) error {
	if ev == 0 {
		return nil
	}
	return e.opt.Device.Do(func() error { return e.opt.Device.driver.DestroyEvent(ev) })
}

// wrap names the op in an error.
func (e *engine) wrap(op *pg.Op, err error) error {
	return &pg.OpError{
		Op: op.Kind, Seq: op.Seq, QuorumID: e.cfg.QuorumID, Rank: e.cfg.Rank, Peer: -1, Err: err,
	}
}

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

// shut ends a broken epoch: the others are told, the communicator is aborted,
// and every op fails once the device is through with it, or AbortLimit is over.
func (e *engine) shut() {
	e.mu.Lock()
	cause, local := e.mu.err, e.mu.local
	e.mu.Unlock()
	if local {
		e.tell(noteAborted, cause)
		e.heardRAS()
	}
	e.stop()
	err := e.halt()
	limit := time.NewTimer(e.opt.AbortLimit)
	defer limit.Stop()
	select {
	case <-e.ran:
	case <-limit.C:
		err = errors.Join(err, fmt.Errorf("%w: a call of its thread had not ended %v after the abort", ErrAbandoned, e.opt.AbortLimit))
	}
	e.mu.Lock()
	flying := e.mu.flying
	e.mu.flying = nil
	e.mu.Unlock()
	if err == nil {
		err = e.drained()
	}
	for _, t := range flying {
		e.finish(t, errors.Join(e.opError(t.op, cause), err))
	}
	e.refuseQueued(cause)
	e.tidy(err)
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
			return errors.Join(abandonedOnly(err), e.comm.abort(e.opt.AbortLimit))
		case e.opt.Shrink && e.cfg.WorldSize() > 1:
			e.mu.Lock()
			e.mu.kept = true
			e.mu.Unlock()
			return nil
		}
	}
	return e.comm.abort(e.opt.AbortLimit)
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

// drained waits until the stream has come to its end, as it does after an abort.
func (e *engine) drained() error {
	return within(e.opt.AbortLimit, "the stream", func() error {
		return e.opt.Device.Do(func() error {
			d := e.opt.Device.driver
			end, err := d.Record(e.stream)
			if err != nil {
				return err
			}
			if err := d.Synchronize(end, e.opt.AbortLimit/2); err != nil {
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
	e.mu.Lock()
	e.stop() // under the lock: nobody begins to listen any more
	e.mu.Unlock()
	e.listening.Wait()
	e.closeStore()
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

// leftover is what the library kept of an epoch that has ended.
func (e *engine) leftover() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.abandoned
}

func (e *engine) closeStore() {
	if e.store != nil {
		if err := e.store.Close(); err != nil {
			e.opt.Log.Debug().Err(err).Msg("rendezvous store closed with an error")
		}
	}
}

// launchedAll waits until nothing is queued any more.
func (e *engine) launchedAll(ctx context.Context) error {
	tick := time.NewTicker(pollMin)
	defer tick.Stop()
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
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
