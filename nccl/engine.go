package nccl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/nccl/internal/pause"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// An engine is one epoch: a communicator, a stream, and the ops on it.
type engine struct {
	opt   *Options
	cfg   pg.Config
	store store.Store

	comm    *communicator // set by init, under the lock, before run
	parent  *splitFrom    // if the communicator is to be split from another
	before  *engine       // of the epoch before, whose communicator may be shrunk
	stream  Stream
	scratch *Buffer

	wake       chan struct{}   // capacity 1: something is queued, or the engine is to stop
	broken     chan struct{}   // closed once err is set
	ran        chan struct{}   // closed once run has returned
	past       chan struct{}   // closed once no op of this epoch is under way any more
	ended      chan struct{}   // closed once nothing of this epoch runs any more
	ctx        context.Context // until the epoch is over
	stop       context.CancelFunc
	found      context.Context // until the store is lost, or nothing is said there any more
	lose       context.CancelFunc
	passedOnce sync.Once
	listening  sync.WaitGroup

	mu struct {
		sync.Mutex

		err       error // the first cause
		local     bool  // it arose here, so the others must be told
		queue     []*task
		flying    []*task
		seq       uint64
		closing   bool
		abandoned error // the library kept something
		late      error // … of it, what the abort left behind
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
		t.deadline = t.began.Add(e.cfg.OpTimeout())
	}
	e.mu.Lock()
	if err := e.mu.err; err != nil || e.mu.closing {
		e.mu.Unlock()
		return pg.Finished(op, errors.Join(pg.ErrAborted, err, e.destroy(t.after)))
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
	if e.mu.err != nil {
		e.mu.Unlock()
		return
	}
	e.mu.err, e.mu.local = err, local
	close(e.broken)
	e.mu.Unlock()
	e.kick()
	if e.opt.broke != nil {
		e.opt.broke(e.cfg.Epoch(), err)
	}
}

func (e *engine) cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.err
}

// run is the life of the engine's thread.
func (e *engine) run() {
	defer close(e.ran)
	if err := e.opt.Device.Do(e.work); err != nil {
		e.fail(err, true)
	}
}

// work launches what is queued and sees what has ended, until the group is closed,
// or broken, maybe by the error that it returns.
func (e *engine) work() error {
	var between pause.Pause
	for {
		if e.cause() != nil {
			return nil // guard sees to the rest
		}
		launched, err := e.launchAll()
		if err != nil {
			return err
		}
		collected, err := e.collect()
		if err != nil {
			return err
		}
		e.mu.Lock()
		busy, closing := len(e.mu.flying) > 0, e.mu.closing
		e.mu.Unlock()
		switch {
		case launched, collected && busy:
			between = pause.Pause{}
		case closing && !busy:
			return nil
		case busy:
			if _, err := e.comm.poll("collective"); err != nil {
				return err
			}
			if err := between.Wait(e.ctx, e.wake); err != nil {
				return nil // the epoch is over
			}
		default:
			select {
			case <-e.wake:
			case <-e.broken:
			}
			between = pause.Pause{}
		}
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
	var err error
	if t.joint != nil {
		err = t.joint.arrive(ctx, e, t)
	} else {
		err = e.comm.use(func(raw comm) error { return e.launchOf(raw).run(t.op) })
	}
	if err != nil {
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
func (e *engine) collect() (any bool, err error) {
	for ; ; any = true {
		e.mu.Lock()
		if len(e.mu.flying) == 0 {
			e.mu.Unlock()
			return any, nil
		}
		t := e.mu.flying[0]
		e.mu.Unlock()
		done, err := e.opt.Device.driver.Query(t.done)
		if err != nil {
			return any, e.wrap(t.op, err)
		}
		if !done {
			return any, nil
		}
		e.mu.Lock()
		if e.mu.err != nil { // guard has it
			e.mu.Unlock()
			return any, nil
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
