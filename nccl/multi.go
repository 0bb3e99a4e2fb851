package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// MultiOptions are those of a Multi. Options.Device and UserStream are for one
// device, and not used.
type MultiOptions struct {
	Options
	// Devices are those of this rank, in an order that is the same on all ranks:
	// the i-th of every rank are connected. At least one, none twice.
	Devices []*Device
	// Streams gives the caller's stream on a device. Nil: the default streams.
	Streams func(device int) Stream
}

// Multi is a process group over several devices of one process. Each has a
// Backend of its own, called lane here: a worker thread, a stream and a
// communicator with the same lane of the other ranks. An op runs on the lane of
// its tensors' device, so that ops on different devices run beside each other.
//
// An all-reduce, reduce or broadcast of several tensors, and a batch, may be over
// several devices: tensor i of this rank meets tensor i of the others on its own
// device, and all start in one ncclGroup. Any other op with tensors on two
// devices is ErrInvalidOp. A barrier is on the first device, or on those of
// Op.DeviceIDs. An error on one lane breaks all. Safe for concurrent use.
type Multi struct {
	opt   MultiOptions
	lanes []*Backend

	submitMu sync.Mutex // joint ops stand in one order in all lanes
}

var (
	_ pg.Backend  = (*Multi)(nil)
	_ pg.Splitter = (*Multi)(nil)
)

// NewMulti makes an unconfigured one. It starts nothing.
func NewMulti(o MultiOptions) (*Multi, error) {
	if len(o.Devices) == 0 {
		return nil, errors.New("nccl: no Devices, want one or more of OpenDevice")
	}
	m := &Multi{opt: o}
	for i, d := range o.Devices {
		if slices.ContainsFunc(o.Devices[:i], func(other *Device) bool { return other.index == d.index }) {
			return nil, fmt.Errorf("nccl: device %d twice, want each once", d.index)
		}
		lane := o.Options
		lane.Device, lane.broke = d, m.Abort
		if o.Streams != nil {
			lane.UserStream = func() Stream { return o.Streams(d.index) }
		}
		b, err := New(lane)
		if err != nil {
			return nil, err
		}
		m.lanes = append(m.lanes, b)
	}
	return m, nil
}

// own closes the devices with m.
func (m *Multi) own() {
	for _, b := range m.lanes {
		b.own = true
	}
}

// Name implements pg.Backend.
func (m *Multi) Name() string { return Name }

// Sibling makes an unconfigured one on the same devices, for a subgroup.
func (m *Multi) Sibling() (pg.Backend, error) { return NewMulti(m.opt) }

// Split implements pg.Splitter, lane by lane.
func (m *Multi) Split(ranks []int) (pg.Backend, error) {
	child, err := NewMulti(m.opt)
	if err != nil {
		return nil, err
	}
	for i, b := range m.lanes {
		if child.lanes[i].parent, err = b.splitFrom(ranks); err != nil {
			return nil, err
		}
	}
	return child, nil
}

// SitOut implements pg.Splitter.
func (m *Multi) SitOut(ctx context.Context) error {
	for _, b := range m.lanes {
		if err := b.SitOut(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Configure implements pg.Backend: lane after lane, each below a prefix of its own.
func (m *Multi) Configure(ctx context.Context, c pg.Config) error {
	address := c.StoreAddress
	for i, b := range m.lanes {
		c.StoreAddress = fmt.Sprintf("%s/lane-%d", address, i)
		if err := b.Configure(ctx, c); err != nil {
			m.Abort(c.Epoch(), err)
			return fmt.Errorf("device %d: %w", b.opt.Device.index, err)
		}
	}
	if err := m.Err(); err != nil { // one broke while another was still being configured
		m.Abort(c.Epoch(), err)
		return err
	}
	return nil
}

// Submit implements pg.Backend.
func (m *Multi) Submit(op *pg.Op) *pg.Work { return m.submit(op, nil) }

// SubmitAfter is Backend.SubmitAfter; every lane that op runs on waits for all
// marks.
func (m *Multi) SubmitAfter(op *pg.Op, marks [][]byte) *pg.Work {
	return m.submit(op, append([][]byte{}, marks...))
}

// ImportMemory is Backend.ImportMemory, of the lane of that device.
func (m *Multi) ImportMemory(d tensor.Device, handle []byte, size int) (tensor.DeviceMemory, error) {
	b, err := m.lane(&pg.Op{}, d)
	if err != nil {
		return nil, err
	}
	return b.ImportMemory(d, handle, size)
}

func (m *Multi) submit(op *pg.Op, marks [][]byte) *pg.Work {
	lanes, split, err := m.divide(op)
	if err != nil {
		return pg.Finished(op, err)
	}
	if len(lanes) == 1 {
		return lanes[0].submit(op, marks)
	}
	m.submitMu.Lock()
	defer m.submitMu.Unlock()
	j := &joint{lanes: len(lanes), done: make(chan struct{})}
	var ready []arrival
	for i, b := range lanes {
		e, t, err := b.prepare(split[i], marks)
		if err != nil {
			for _, r := range ready {
				err = errors.Join(err, r.e.destroy(r.t.after))
			}
			return pg.Finished(op, err)
		}
		t.joint = j
		ready = append(ready, arrival{e, t})
	}
	var works []*pg.Work
	for _, r := range ready {
		works = append(works, r.e.take(r.t))
	}
	return together(op, split, works)
}

// together is done when all works are, with the first error.
func together(op *pg.Op, split []*pg.Op, works []*pg.Work) *pg.Work {
	outer := pg.NewWork(op)
	var mu sync.Mutex
	left, first := len(works), error(nil)
	for _, w := range works {
		w.Then(func(err error) {
			mu.Lock()
			if first == nil {
				first = err
			}
			left--
			last, result := left == 0, first
			mu.Unlock()
			if last {
				op.Seq, op.Epoch, op.Round = split[0].Seq, split[0].Epoch, split[0].Round
				outer.Complete(result)
				outer.Release()
			}
		})
	}
	return outer
}

// divide tells which lanes op runs on, and what of it on each.
func (m *Multi) divide(op *pg.Op) (lanes []*Backend, split []*pg.Op, err error) {
	part := func(d tensor.Device) (*pg.Op, error) {
		lane, err := m.lane(op, d)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(lanes, lane); i >= 0 {
			return split[i], nil
		}
		// Not a copy of op, whose memory is pooled with its Work.
		sub := &pg.Op{
			Kind: op.Kind, Reduce: op.Reduce, Divisor: op.Divisor, Factor: op.Factor, Root: op.Root, Deadline: op.Deadline,
		}
		if op.Internal() {
			sub.MarkInternal()
		}
		lanes, split = append(lanes, lane), append(split, sub)
		return sub, nil
	}
	place := func(kind pg.Kind, in, out []tensor.Tensor) (*pg.Op, error) {
		d, err := m.oneDevice(kind, in, out)
		if err != nil {
			return nil, err
		}
		return part(d)
	}
	switch op.Kind {
	case pg.KindBarrier:
		ids := op.DeviceIDs
		if len(ids) == 0 {
			ids = []int{m.lanes[0].opt.Device.index}
		}
		for _, id := range ids {
			if _, err := part(tensor.CUDA(id)); err != nil {
				return nil, nil, err
			}
		}
	case pg.KindAllReduce, pg.KindReduce, pg.KindBroadcast:
		err = pairs(op, place)
	case pg.KindBatch:
		for _, sub := range op.Batch {
			p, err := place(sub.Kind, sub.In, sub.Out)
			if err != nil {
				return nil, nil, err
			}
			p.Batch = append(p.Batch, sub)
		}
	default:
		if _, err = place(op.Kind, op.In, op.Out); err == nil {
			split[0] = op
		}
	}
	if err == nil && len(lanes) == 0 { // an op without tensors: its lane says what is wrong
		return m.lanes[:1], []*pg.Op{op}, nil
	}
	return lanes, split, err
}

// pairs gives each lane the tensors on its device, input and output.
func pairs(op *pg.Op, place func(kind pg.Kind, in, out []tensor.Tensor) (*pg.Op, error)) error {
	for i := range max(len(op.In), len(op.Out)) {
		ith := func(all []tensor.Tensor) []tensor.Tensor { return all[min(i, len(all)):min(i+1, len(all))] }
		in, out := ith(op.In), ith(op.Out)
		p, err := place(op.Kind, in, out)
		if err != nil {
			return err
		}
		p.In, p.Out = append(p.In, in...), append(p.Out, out...)
	}
	return nil
}

// oneDevice is where all tensors of an op lie.
func (m *Multi) oneDevice(kind pg.Kind, in, out []tensor.Tensor) (d tensor.Device, err error) {
	d, some := tensor.CUDA(m.lanes[0].opt.Device.index), false
	for _, all := range [2][]tensor.Tensor{in, out} {
		for _, t := range all {
			if some && t.Device() != d {
				return d, fmt.Errorf("%w: %v of tensors on %v and %v, want one device", pg.ErrInvalidOp, kind, d, t.Device())
			}
			d, some = t.Device(), true
		}
	}
	return d, nil
}

func (m *Multi) lane(op *pg.Op, d tensor.Device) (*Backend, error) {
	var have []string
	for _, b := range m.lanes {
		own := tensor.CUDA(b.opt.Device.index)
		if own == d {
			return b, nil
		}
		have = append(have, own.String())
	}
	return nil, fmt.Errorf("%w: %v on %v, this group is on %v", pg.ErrInvalidOp, op.Kind, d, have)
}

// Abort implements pg.Backend. A lane that breaks aborts all.
func (m *Multi) Abort(e pg.Epoch, cause error) {
	for _, b := range m.lanes {
		b.Abort(e, cause)
	}
}

// Err implements pg.Backend.
func (m *Multi) Err() error {
	for _, b := range m.lanes {
		if err := b.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Broken is closed once epoch is broken, or over; at once for any other.
func (m *Multi) Broken(epoch pg.Epoch) <-chan struct{} { return m.lanes[0].Broken(epoch) }

// WaitStream is Backend.WaitStream, of the lane of a device.
func (m *Multi) WaitStream(ctx context.Context, device int, s Stream) error {
	b, err := m.lane(&pg.Op{Kind: pg.KindBarrier}, tensor.CUDA(device))
	if err != nil {
		return err
	}
	return b.WaitStream(ctx, s)
}

// Attachments implements trace.Attacher.
func (m *Multi) Attachments() map[string]string { return m.lanes[0].Attachments() }

// Close implements pg.Backend.
func (m *Multi) Close() error {
	var errs []error
	for _, b := range m.lanes {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// A joint is ops of several lanes that start together: the thread that comes last
// makes the calls of all, in one group.
type joint struct {
	lanes int
	done  chan struct{} // closed once err is set

	mu struct {
		sync.Mutex

		here []arrival
	}
	err error
}

type arrival struct {
	e *engine
	t *task
}

// arrive returns when the calls have been made, or ctx ends.
func (j *joint) arrive(ctx context.Context, e *engine, t *task) error {
	j.mu.Lock()
	j.mu.here = append(j.mu.here, arrival{e, t})
	here := slices.Clone(j.mu.here)
	j.mu.Unlock()
	if len(here) == j.lanes {
		j.err = inLanes(here, nil)
		close(j.done)
		return j.err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the other devices: %w", context.Cause(ctx))
	}
}

// inLanes makes the calls, with the handles of all communicators in use. No other
// thread takes two of them: those of the other lanes wait for this one.
func inLanes(left []arrival, ready []*launch) error {
	if len(left) > 0 {
		e := left[0].e
		return e.comm.use(func(raw comm) error {
			l := e.launchOf(raw)
			l.op = left[0].t.op
			return inLanes(left[1:], append(ready, l))
		})
	}
	err := inGroup(ready[0].c.lib, func() error {
		for _, l := range ready {
			if err := l.all(l.op); err != nil {
				return err
			}
		}
		return nil
	})
	for _, l := range ready {
		if err == nil {
			err = l.c.trimOps(l.raw)
		}
	}
	return err
}
