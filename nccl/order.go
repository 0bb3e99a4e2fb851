package nccl

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// MaxMarks bounds the events that an Order shares: CUDA has not many. Beyond
// them Mark waits on the host.
const MaxMarks = 1000

// OrderOptions say whose streams an Order knows. Devices is required, and all of
// them are of one driver.
type OrderOptions struct {
	Devices []*Device
	// UserStream gives the stream of the device on which the caller's tensors
	// are made. Nil means the default stream.
	UserStream func(device int) Stream
}

// Order puts the ops of a Baby behind the work of this process's streams, on the
// device: the trainer's CPU waits for neither. It is baby.Options.Order.
//
// A mark is an event that both processes know. This process makes and records
// it, the child opens it once and waits for it on its stream. This process also
// keeps all of them until Close, so that the child never waits for an event that
// is gone. Safe for concurrent use.
type Order struct {
	opt    OrderOptions
	driver Driver
	shared SharedEvents

	mu struct {
		sync.Mutex

		free   map[int][]*mark // by device
		made   int             // free, and in use
		closed bool
	}
}

// A mark is a shared event and its name in other processes.
type mark struct {
	dev    *Device
	event  Event
	handle []byte
}

// NewOrder makes an Order. It makes no event yet. It fails with
// pg.ErrUnsupported if the driver has no SharedEvents.
func NewOrder(o OrderOptions) (*Order, error) {
	if len(o.Devices) == 0 {
		return nil, errors.New("nccl: an Order without Devices, want those of the caller's tensors")
	}
	driver := o.Devices[0].driver
	if slices.ContainsFunc(o.Devices, func(d *Device) bool { return d.driver != driver }) {
		return nil, errors.New("nccl: an Order over devices of two drivers, want one")
	}
	shared, ok := driver.(SharedEvents)
	if !ok {
		return nil, fmt.Errorf("%w: driver %T shares no events between processes", pg.ErrUnsupported, driver)
	}
	if o.UserStream == nil {
		o.UserStream = func(int) Stream { return 0 }
	}
	order := &Order{opt: o, driver: driver, shared: shared}
	order.mu.free = make(map[int][]*mark)
	return order, nil
}

// Mark notes how far the caller's stream on d is now. The handle is for the
// child's backend; release gives the mark back once nothing waits for it any
// more, and may be called from any goroutine. With MaxMarks in use it waits
// until the stream has come so far, and the handle is nil.
func (o *Order) Mark(d tensor.Device) (handle []byte, release func(), err error) {
	dev, err := o.device(d)
	if err != nil {
		return nil, nil, err
	}
	m, err := o.take(dev)
	if err != nil {
		return nil, nil, fmt.Errorf("mark the stream of %v: %w", d, err)
	}
	s := o.opt.UserStream(dev.index)
	if m == nil {
		return nil, func() {}, dev.Do(func() error { return dev.reach(s, copyLimit) })
	}
	if err := dev.Do(func() error { return o.shared.RecordShared(m.event, s) }); err != nil {
		o.give(m)
		return nil, nil, fmt.Errorf("mark the stream of %v: %w", d, err)
	}
	var once sync.Once
	return m.handle, func() { once.Do(func() { o.give(m) }) }, nil
}

func (o *Order) device(d tensor.Device) (*Device, error) {
	for _, dev := range o.opt.Devices {
		if tensor.CUDA(dev.index) == d {
			return dev, nil
		}
	}
	return nil, fmt.Errorf("%w: tensor on %v, which is none of the Order's %d devices", pg.ErrInvalidOp, d, len(o.opt.Devices))
}

// take gives a mark that nothing waits for, or none if there are too many.
func (o *Order) take(dev *Device) (*mark, error) {
	o.mu.Lock()
	if o.mu.closed {
		o.mu.Unlock()
		return nil, pg.ErrClosed
	}
	if free := o.mu.free[dev.index]; len(free) > 0 {
		m := free[len(free)-1]
		o.mu.free[dev.index] = free[:len(free)-1]
		o.mu.Unlock()
		return m, nil
	}
	if o.mu.made == MaxMarks {
		o.mu.Unlock()
		return nil, nil
	}
	o.mu.made++
	o.mu.Unlock()
	m, err := o.make(dev)
	if err != nil {
		o.mu.Lock()
		o.mu.made--
		o.mu.Unlock()
	}
	return m, err
}

func (o *Order) make(dev *Device) (*mark, error) {
	m := &mark{dev: dev}
	err := dev.Do(func() (err error) {
		if m.event, err = o.shared.NewShared(); err != nil {
			return err
		}
		h, err := o.shared.ExportEvent(m.event)
		if err != nil {
			return errors.Join(err, o.driver.DestroyEvent(m.event))
		}
		m.handle = h[:]
		return nil
	})
	return m, err
}

// give takes a mark back; after Close it destroys it.
func (o *Order) give(m *mark) {
	o.mu.Lock()
	closed := o.mu.closed
	if !closed {
		o.mu.free[m.dev.index] = append(o.mu.free[m.dev.index], m)
	} else {
		o.mu.made--
	}
	o.mu.Unlock()
	if closed {
		_ = m.destroy() // Close is over: nobody is left to tell
	}
}

func (m *mark) destroy() error {
	return m.dev.Do(func() error { return m.dev.driver.DestroyEvent(m.event) })
}

// Marks tells how many events there are, and for how many of them ops wait.
func (o *Order) Marks() (made, used int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	used = o.mu.made
	for _, free := range o.mu.free {
		used -= len(free)
	}
	return o.mu.made, used
}

// Close destroys the marks; those in use go when they are released. Close the
// Babies that use the Order first.
func (o *Order) Close() error {
	o.mu.Lock()
	o.mu.closed = true
	var all []*mark
	for _, free := range o.mu.free {
		all = append(all, free...)
	}
	o.mu.free = make(map[int][]*mark)
	o.mu.made -= len(all)
	o.mu.Unlock()
	var errs []error
	for _, m := range all {
		errs = append(errs, m.destroy())
	}
	return errors.Join(errs...)
}
