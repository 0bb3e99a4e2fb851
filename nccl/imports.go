package nccl

import (
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
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

// ImportMemory opens device memory that another process has exported; it makes
// this backend usable in a Baby. The memory is closed with the backend, or by its
// Close.
func (b *Backend) ImportMemory(d tensor.Device, handle []byte, size int) (tensor.DeviceMemory, error) {
	if d != tensor.CUDA(b.opt.Device.index) {
		return nil, fmt.Errorf("nccl: memory on %v, this group is on %v", d, tensor.CUDA(b.opt.Device.index))
	}
	buf, err := b.opt.Device.Import(handle, size)
	if err != nil {
		return nil, err
	}
	m := &importedMemory{buf, &b.imports}
	b.imports.mu.Lock()
	defer b.imports.mu.Unlock()
	b.imports.mu.memory[m] = true
	return m, nil
}

// importedMemory is memory of another process that goes with the backend.
type importedMemory struct {
	*Buffer
	imports *imports
}

// Close unmaps the memory, if the backend has not yet.
func (m *importedMemory) Close() error {
	m.imports.mu.Lock()
	open := m.imports.mu.memory[m]
	delete(m.imports.mu.memory, m)
	m.imports.mu.Unlock()
	if !open {
		return nil
	}
	return m.Buffer.Close()
}

// imports are events and memory of another process, opened once each.
type imports struct {
	mu struct {
		sync.Mutex

		open   map[IPCHandle]Event
		memory map[*importedMemory]bool
	}
}

// init makes i empty.
func (i *imports) init() {
	i.mu.open, i.mu.memory = make(map[IPCHandle]Event), make(map[*importedMemory]bool)
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
	e, err := doing(dev, func() (Event, error) { return shared.ImportEvent(h) })
	if err != nil {
		return 0, fmt.Errorf("open an event of another process: %w", err)
	}
	i.mu.open[h] = e
	return e, nil
}

// close closes all.
func (i *imports) close(dev *Device) error {
	i.mu.Lock()
	events, memory := i.mu.open, i.mu.memory
	i.init()
	i.mu.Unlock()
	var errs []error
	for _, e := range events {
		errs = append(errs, dev.Do(func() error { return dev.driver.DestroyEvent(e) }))
	}
	for m := range memory {
		errs = append(errs, m.Buffer.Close())
	}
	return errors.Join(errs...)
}
