package nccl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/nccl/diagnose"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Name is what Register makes known to pg.Open.
const Name = "nccl"

// DefaultAbortLimit is how long the library gets to return from an abort while ops wait
// for that; six times as long, once they have ended.
const DefaultAbortLimit = 5 * time.Second

// scratchBytes is what a barrier reduces.
const scratchBytes = 64

// Options say what a Backend works with. Library and Device are required.
type Options struct {
	Library *Library
	Device  *Device
	// UserStream gives the stream on which the caller's tensors are made; ops
	// wait for what is on it at Submit. Nil means the default stream.
	UserStream func() Stream
	// HighPriority runs collectives on a stream of the highest priority.
	HighPriority bool
	// Shrink keeps the communicator of a broken group, revoked, and lets the next
	// Configure make its own by ncclCommShrink, if all its ranks were in that
	// group in the same order and offer so (NCCL 2.29). It saves connecting anew,
	// and leans on what is left of a group in which something has failed. Equal
	// on all ranks, or it is not done.
	Shrink bool
	// RAS is the address of the library's RAS service, which is asked how the job
	// is when an op is about to miss its deadline, or the library reports an error
	// (NCCL 2.24). Empty: nobody is asked. See diagnose.RASFromEnv.
	RAS string
	// DebugFile is the library's log, whose end goes with a dump of a trace.Recorder.
	// Empty: none. See diagnose.DebugFileFromEnv.
	DebugFile string
	// AbortLimit: 0 means DefaultAbortLimit.
	AbortLimit time.Duration
	Log        zerolog.Logger

	broke func(pg.Epoch, error) // told of the first cause, without a lock held
}

// Backend is a process group of NCCL on one device. Safe for concurrent use.
type Backend struct {
	opt Options
	own bool // Device was opened by Open, and is closed with the backend

	parent *splitFrom // whose communicator this one's is split from, or nil

	imports imports // events of the process whose child this one is

	configMu sync.Mutex
	leaving  []*engine // older epochs, of which something may be left; under configMu

	mu struct {
		sync.Mutex

		engine *engine
		err    error // why there is none
		used   pg.History
		closed bool
	}
}

var _ pg.Backend = (*Backend)(nil)

// New makes an unconfigured backend. It starts nothing.
func New(o Options) (*Backend, error) {
	switch {
	case o.Library == nil:
		return nil, errors.New("nccl: no Library, want one of OpenLibrary")
	case o.Device == nil:
		return nil, errors.New("nccl: no Device, want one of OpenDevice")
	case o.AbortLimit < 0:
		return nil, fmt.Errorf("nccl: abort limit %v, want 0 (the default) or more", o.AbortLimit)
	}
	o.AbortLimit = cmp.Or(o.AbortLimit, DefaultAbortLimit)
	if o.UserStream == nil {
		o.UserStream = func() Stream { return 0 }
	}
	b := &Backend{opt: o}
	b.mu.err = pg.ErrUnconfigured
	b.imports.init()
	return b, nil
}

// Register makes "nccl" known to pg.Open for CUDA devices. Nothing is loaded
// before a backend is opened.
func Register() error { return pg.Register(Name, []string{"cuda"}, Open) }

// Open is the pg.Factory of this backend. Params: "nccl.library" and
// "nccl.cuda" are paths instead of the system's names, "nccl.device" is the
// device's number (0) or those of several ("0,1": see Multi), "nccl.high-priority" is true or false, and "nccl.ras" is
// where RAS is asked, instead of where the environment says; empty for nowhere.
func Open(o pg.Options) (pg.Backend, error) {
	lib, err := OpenLibrary(pathsOf(o.Params["nccl.library"])...)
	if err != nil {
		return nil, err
	}
	cuda, err := OpenCUDA(pathsOf(o.Params["nccl.cuda"])...)
	if err != nil {
		return nil, err
	}
	indices, err := deviceList(o.Params["nccl.device"])
	if err != nil {
		return nil, err
	}
	high := false
	if v, ok := o.Params["nccl.high-priority"]; ok {
		if high, err = strconv.ParseBool(v); err != nil {
			return nil, fmt.Errorf("nccl.high-priority = %q, want true or false", v)
		}
	}
	ras, ok := o.Params["nccl.ras"]
	if !ok {
		ras = diagnose.RASFromEnv()
	}
	return openDevices(cuda, indices, Options{
		Library: lib, HighPriority: high, Log: o.Log, RAS: ras, DebugFile: diagnose.DebugFileFromEnv(),
	})
}

// openDevices opens a backend over devices of its own.
func openDevices(cuda Driver, indices []int, o Options) (pg.Backend, error) {
	var devices []*Device
	closeAll := func(err error) error {
		for _, d := range devices {
			err = errors.Join(err, d.Close())
		}
		return err
	}
	for _, i := range indices {
		d, err := OpenDevice(cuda, i)
		if err != nil {
			return nil, closeAll(err)
		}
		devices = append(devices, d)
	}
	if len(devices) > 1 {
		m, err := NewMulti(MultiOptions{Options: o, Devices: devices})
		if err != nil {
			return nil, closeAll(err)
		}
		m.own()
		return m, nil
	}
	o.Device = devices[0]
	b, err := New(o)
	if err != nil {
		return nil, closeAll(err)
	}
	b.own = true
	return b, nil
}

// deviceList reads "0", or "0,2"; nothing means 0.
func deviceList(s string) (indices []int, err error) {
	if s == "" {
		return []int{0}, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("nccl.device = %q, want a number, or several with commas", s)
		}
		indices = append(indices, i)
	}
	return indices, nil
}

func pathsOf(p string) []string {
	if p == "" {
		return nil
	}
	return []string{p}
}

// Name implements pg.Backend.
func (b *Backend) Name() string { return Name }

// Sibling makes an unconfigured backend on the same device, for a subgroup.
func (b *Backend) Sibling() (pg.Backend, error) { return New(b.opt) }

// current is the engine, or why there is none.
func (b *Backend) current() (*engine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.err != nil {
		return nil, b.mu.err
	}
	return b.mu.engine, nil
}

// Err implements pg.Backend.
func (b *Backend) Err() error {
	e, err := b.current()
	if err != nil {
		return err
	}
	return e.cause()
}

// Broken is closed once epoch is broken, or over; at once for any other.
func (b *Backend) Broken(epoch pg.Epoch) <-chan struct{} {
	if e, err := b.current(); err == nil && e.cfg.Epoch() == epoch {
		return e.broken
	}
	over := make(chan struct{})
	close(over)
	return over
}

// Abort implements pg.Backend.
func (b *Backend) Abort(epoch pg.Epoch, cause error) {
	b.mu.Lock()
	e := b.mu.engine
	b.mu.Unlock()
	if e != nil && e.cfg.Epoch() == epoch {
		e.fail(cause, true)
	}
}

// Submit implements pg.Backend. It records an event on the caller's stream
// before it returns, and never waits.
func (b *Backend) Submit(op *pg.Op) *pg.Work { return b.submit(op, nil) }

// submit starts op behind the caller's stream, or behind marks of another
// process.
func (b *Backend) submit(op *pg.Op, marks [][]byte) *pg.Work {
	e, t, err := b.prepare(op, marks)
	if err != nil {
		return pg.Finished(op, err)
	}
	return e.take(t)
}

// prepare checks op and finds out what it waits for.
func (b *Backend) prepare(op *pg.Op, marks [][]byte) (*engine, *task, error) {
	e, err := b.current()
	switch {
	case errors.Is(err, pg.ErrUnconfigured), errors.Is(err, pg.ErrClosed):
		return nil, nil, err
	case err != nil:
		return nil, nil, errors.Join(pg.ErrAborted, err)
	}
	world := e.cfg.WorldSize()
	if err := op.Validate(e.cfg.Rank, world); err != nil {
		return nil, nil, err
	}
	for _, sub := range parts(op) {
		if err := errors.Join(b.checkDevice(sub), supports(sub, world), b.hasArithmetic(sub)); err != nil {
			return nil, nil, err
		}
	}
	t := &task{op: op}
	if marks != nil {
		t.marks, err = b.imports.events(b.opt.Device, marks)
	} else {
		t.after, err = b.ready()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find out what %v waits for: %w", op.Kind, err)
	}
	return e, t, nil
}

// parts are the ops that an op consists of: a batch is launched as one group, so
// that its messages cross.
func parts(op *pg.Op) []*pg.Op {
	if op.Kind == pg.KindBatch {
		return op.Batch
	}
	return []*pg.Op{op}
}

// hasArithmetic tells whether the library can reduce what op reduces.
func (b *Backend) hasArithmetic(op *pg.Op) error {
	if op.Kind.Reduces() && len(op.In) > 0 && op.In[0].DType().IsFloat8() {
		return b.opt.Library.need(SmallFloat)
	}
	return nil
}

func (b *Backend) checkDevice(op *pg.Op) error {
	want := tensor.CUDA(b.opt.Device.index)
	for _, id := range op.DeviceIDs {
		if id != want.Index {
			return fmt.Errorf("%w: %v on device %d, this group is on %v", pg.ErrInvalidOp, op.Kind, id, want)
		}
	}
	for _, side := range [2][]tensor.Tensor{op.In, op.Out} {
		for _, t := range side {
			if t.Device() != want {
				return fmt.Errorf("%w: %v of a tensor on %v, this group is on %v", pg.ErrInvalidOp, op.Kind, t.Device(), want)
			}
		}
	}
	return nil
}

// ready is an event behind what the caller's stream has to do now.
func (b *Backend) ready() (Event, error) {
	return doing(b.opt.Device, func() (Event, error) { return b.opt.Device.driver.Record(b.opt.UserStream()) })
}

// WaitStream makes s wait on the device for all ops submitted so far, instead of
// the host, which goes on at once. Ops that fail do not end its wait with an
// error: look at the Work.
func (b *Backend) WaitStream(ctx context.Context, s Stream) error {
	e, err := b.current()
	if err != nil {
		return err
	}
	if err := e.launchedAll(ctx); err != nil {
		return err
	}
	return b.opt.Device.Do(func() error {
		d := b.opt.Device.driver
		ev, err := d.Record(e.stream)
		if err != nil {
			return err
		}
		return errors.Join(d.WaitEvent(s, ev), d.DestroyEvent(ev))
	})
}

// Close implements pg.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.mu.closed {
		b.mu.Unlock()
		return nil
	}
	b.mu.closed, b.mu.err = true, pg.ErrClosed
	e := b.mu.engine
	b.mu.Unlock()
	if e != nil {
		e.leave(pg.ErrClosed)
	}
	b.configMu.Lock() // a Configure under way has ended by that
	defer b.configMu.Unlock()
	b.mu.Lock()
	e = b.mu.engine
	b.mu.engine = nil
	b.mu.Unlock()
	var left error
	if e != nil {
		e.leave(pg.ErrClosed)
		<-e.ended
		e.dropKept()
		left, _ = e.leftover()
	}
	for _, old := range b.leaving {
		<-old.ended
		_, late := old.leftover()
		left = errors.Join(left, late)
	}
	if left != nil {
		return left // the device is still in use
	}
	err := b.imports.close(b.opt.Device)
	if b.own {
		err = errors.Join(err, b.opt.Device.Close())
	}
	return err
}
