package nccl

import (
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
)

// SubmitAfter starts op behind marks that another process has made with an
// Order, instead of behind a stream of this one. It makes the backend one that a
// Baby can put behind the trainer's streams.
func (b *Backend) SubmitAfter(op *pg.Op, marks [][]byte) *pg.Work {
	if marks == nil {
		marks = [][]byte{}
	}
	return b.submit(op, marks)
}

// maxImports bounds the events of another process that are open here: those of
// one Order.
const maxImports = MaxMarks

// imports are events of another process, opened once each.
type imports struct {
	mu struct {
		sync.Mutex

		open map[IPCHandle]Event
	}
}

// events opens what marks name. They stay open until close.
func (i *imports) events(dev *Device, marks [][]byte) ([]Event, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	shared, ok := dev.driver.(SharedEvents)
	if !ok {
		return nil, fmt.Errorf("%w: driver %T shares no events between processes", pg.ErrUnsupported, dev.driver)
	}
	all := make([]Event, len(marks))
	for n, m := range marks {
		var err error
		if all[n], err = i.event(dev, shared, m); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (i *imports) event(dev *Device, shared SharedEvents, handle []byte) (Event, error) {
	var h IPCHandle
	if len(handle) != len(h) {
		return 0, fmt.Errorf("nccl: handle of an event has %d bytes, want %d", len(handle), len(h))
	}
	copy(h[:], handle)
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.mu.open[h]; ok {
		return e, nil
	}
	if len(i.mu.open) == maxImports {
		return 0, fmt.Errorf("nccl: more than %d events of another process", maxImports)
	}
	var e Event
	err := dev.Do(func() (err error) {
		e, err = shared.ImportEvent(h)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("open an event of another process: %w", err)
	}
	if i.mu.open == nil {
		i.mu.open = make(map[IPCHandle]Event)
	}
	i.mu.open[h] = e
	return e, nil
}

// close closes all events.
func (i *imports) close(dev *Device) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for _, e := range i.mu.open {
		errs = append(errs, dev.Do(func() error { return dev.driver.DestroyEvent(e) }))
	}
	i.mu.open = nil
	return errors.Join(errs...)
}
