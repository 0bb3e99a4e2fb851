package baby

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Order says how far the device work of this process is at Submit, so that the
// child's device waits for it, and no CPU. Package nccl has one.
type Order interface {
	// Mark notes how far the caller's work on d is now. The backend in the child
	// gets the handle; release is called once nothing waits for the mark any
	// more. Without a handle there is nothing to wait for.
	Mark(d tensor.Device) (handle []byte, release func(), err error)
}

// Follower is implemented by backends that put ops behind the marks of an Order
// of another process.
type Follower interface {
	// SubmitAfter is Submit of an op that waits, on the device, for all marks.
	// They are valid during the call.
	SubmitAfter(op *pg.Op, marks [][]byte) *pg.Work
}

// Settler is implemented by device memory whose owner can wait, on the host, for
// the work that the caller has queued on its device. Without an Order it is what
// keeps an op of the child from reading a tensor before it has been written.
type Settler interface {
	// Settle returns once all work that is on the caller's default stream is done,
	// or limit has passed, with an error.
	Settle(limit time.Duration) error
}

// Bounds of what an op brings along.
const (
	maxMarks         = 64   // of one op: one for each device of its tensors
	maxMarkBytes     = 256  // CUDA's have 64
	maxDeviceHandles = 4096 // memories of the parent open in a child
)

// inOrder submits op behind the marks of its tensors' devices.
func (b *Backend) inOrder(c *child, op *pg.Op) *pg.Work {
	if n := len(op.DeviceIDs); n > maxMarks {
		return pg.Finished(op, fmt.Errorf("%w: %v with %d device ids, want at most %d", pg.ErrInvalidOp, op.Kind, n, maxMarks))
	}
	if b.opt.Order == nil {
		if err := b.settle(op, c.limitOf(op)); err != nil {
			return pg.Finished(op, err)
		}
		return c.submit(op, nil)
	}
	marks, release, err := b.marks(op)
	if err != nil {
		release()
		return pg.Finished(op, fmt.Errorf("put %v in order with the device's work: %w", op.Kind, err))
	}
	w := c.submit(op, marks)
	if len(marks) > 0 {
		w.Then(func(error) { release() })
	}
	return w
}

// settle waits for the devices that op has tensors on. What it cannot wait for it
// refuses: unordered, the op might sum what has not been written yet.
func (b *Backend) settle(op *pg.Op, limit time.Duration) error {
	for _, mem := range perDevice(op) {
		d := mem.Device()
		s, ok := mem.(Settler)
		if !ok {
			return fmt.Errorf("%w: %v of a tensor on %v in a child without an Order: its memory (%T) cannot be waited for; "+
				"give baby.Options.Order, by baby.RegisterWith for what pg.Open opens", pg.ErrUnsupported, op.Kind, d, mem)
		}
		if err := s.Settle(limit); err != nil {
			return fmt.Errorf("wait for the work on %v before %v: %w", d, op.Kind, err)
		}
	}
	return nil
}

// perDevice is the first memory of op on each device that it has tensors on.
func perDevice(op *pg.Op) (first []tensor.DeviceMemory) {
	op.Each(func(sub *pg.Op) {
		for _, side := range [2][]tensor.Tensor{sub.In, sub.Out} {
			for _, t := range side {
				mem, _ := t.Memory()
				same := func(m tensor.DeviceMemory) bool { return m.Device() == mem.Device() }
				if mem != nil && !slices.ContainsFunc(first, same) {
					first = append(first, mem)
				}
			}
		}
	})
	return first
}

// marks makes one for every device that op has tensors on.
func (b *Backend) marks(op *pg.Op) (marks [][]byte, release func(), err error) {
	var releases []func()
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	for _, mem := range perDevice(op) {
		handle, give, err := b.opt.Order.Mark(mem.Device())
		if err != nil {
			return nil, release, err
		}
		releases = append(releases, give)
		if n := len(releases); n > maxMarks || len(handle) > maxMarkBytes {
			return nil, release, fmt.Errorf("%w: %d devices, want at most %d; mark of %d bytes, want at most %d",
				pg.ErrUnsupported, n, maxMarks, len(handle), maxMarkBytes)
		}
		if len(handle) > 0 {
			marks = append(marks, handle)
		}
	}
	return marks, release, nil
}

// Unshare has the child close device memory that no op uses any more. Call it
// before you free memory of which tensors went through this Backend: CUDA wants
// it closed everywhere else first. A Configure does as much for all memory.
func (b *Backend) Unshare(m tensor.DeviceMemory) error {
	handle, err := m.Export()
	if err != nil {
		return fmt.Errorf("baby: name device memory for the child: %w", err)
	}
	c := b.inUse()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.orphan {
		c.tellLocked(message(msgUnshare, handle...), nil)
	}
	return nil
}

// readMarks reads what an op waits for.
func (o *order) readMarks(c *cursor) {
	for range c.count(maxMarks, "marks of an op") {
		o.marks = append(o.marks, c.take(c.count(maxMarkBytes, "bytes of a mark")))
	}
}

// start hands an op to the backend, behind its marks.
func (s *server) start(o *order) *pg.Work {
	end := func(err error) { s.done(o, err) }
	if len(o.marks) == 0 {
		w := s.backend.Submit(&o.op)
		w.Then(end)
		return w
	}
	f, ok := s.backend.(Follower)
	if !ok {
		end(fmt.Errorf("%w: %s waits for no marks of another process", pg.ErrUnsupported, s.backend.Name()))
		return nil
	}
	w := f.SubmitAfter(&o.op, o.marks)
	w.Then(end)
	return w
}

// devices is the parent's device memory that a child has open, by handle. A place
// that was taken again for something larger is opened once more: ops may still
// use what was there before.
type devices struct {
	mu struct {
		sync.Mutex

		open  map[string][]tensor.DeviceMemory // each larger than the one before
		count int
	}
}

// get opens memory, unless it is open.
func (d *devices) get(backend pg.Backend, r *ref) (tensor.DeviceMemory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have := d.mu.open[string(r.handle)]
	if n := len(have); n > 0 && uint64(have[n-1].NumBytes()) >= r.bytes {
		return have[n-1], nil
	}
	importer, ok := backend.(Importer)
	if !ok {
		return nil, fmt.Errorf("%w: %s takes no device memory of another process", pg.ErrUnsupported, backend.Name())
	}
	if d.mu.count == maxDeviceHandles {
		return nil, fmt.Errorf("%w: more than %d device memories of the parent; Unshare those that are not used any more",
			pg.ErrUnsupported, maxDeviceHandles)
	}
	mem, err := importer.ImportMemory(tensor.CUDA(int(r.index)), append([]byte(nil), r.handle...), int(r.bytes))
	if err != nil {
		return nil, fmt.Errorf("baby: open device memory of the parent: %w", errors.Join(pg.ErrUnsupported, err))
	}
	if d.mu.open == nil {
		d.mu.open = make(map[string][]tensor.DeviceMemory)
	}
	d.mu.open[string(r.handle)] = append(have, mem)
	d.mu.count++
	return mem, nil
}

// drop closes memory, if it is open.
func (d *devices) drop(handle []byte) error {
	d.mu.Lock()
	all := d.mu.open[string(handle)]
	delete(d.mu.open, string(handle))
	d.mu.count -= len(all)
	d.mu.Unlock()
	var errs []error
	for _, mem := range all {
		if c, ok := mem.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *server) deviceTensor(r *ref, dtype tensor.DType, n uint64) (tensor.Tensor, error) {
	mem, err := s.devices.get(s.backend, r)
	if err != nil {
		return tensor.Tensor{}, err
	}
	all, err := tensor.OnDevice(mem, dtype, mem.NumBytes()/dtype.Size())
	if err != nil {
		return tensor.Tensor{}, err
	}
	first := r.offset / uint64(dtype.Size())
	if r.offset%uint64(dtype.Size()) != 0 || r.offset+n > uint64(mem.NumBytes()) { // fails the op, not the child
		return tensor.Tensor{}, fmt.Errorf("%w: op on bytes %d to %d of device memory of %d, in elements of %d",
			pg.ErrUnsupported, r.offset, r.offset+n, mem.NumBytes(), dtype.Size())
	}
	return all.Slice(int(first), int(first+r.count)), nil
}
