package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// copyLimit bounds the wait for a copy between host and device.
const copyLimit = time.Minute

// Device is one GPU of this process: its primary context, which is shared with
// everybody else in the process who uses it. Safe for concurrent use.
type Device struct {
	driver Driver
	index  int
	ctx    Context
	gates  gates

	closed sync.Once
	err    error
}

// OpenDevice retains the primary context of the index-th device.
func OpenDevice(d Driver, index int) (*Device, error) {
	n, err := d.Devices()
	if err != nil {
		return nil, fmt.Errorf("count devices: %w", err)
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("nccl: device %d, want 0 to %d: this process sees %d (CUDA_VISIBLE_DEVICES)", index, n-1, n)
	}
	ctx, err := d.Primary(index)
	if err != nil {
		return nil, fmt.Errorf("open device %d: %w", index, err)
	}
	return &Device{driver: d, index: index, ctx: ctx}, nil
}

// Index is the device's number.
func (d *Device) Index() int { return d.index }

// Driver is what the device was opened with.
func (d *Device) Driver() Driver { return d.driver }

// Close releases the context. Everything on the device must be closed before.
// Safe to call twice.
func (d *Device) Close() error {
	d.closed.Do(func() {
		if d.err = d.gates.close(d); d.err == nil {
			d.err = d.driver.Release(d.index)
		}
	})
	return d.err
}

// Do runs f on a thread on which this device is current. Afterwards the thread has
// the context that it had: it may be one that the caller has locked, and computes
// with on another device.
func (d *Device) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := d.driver.Current()
	if err != nil {
		return err
	}
	if before == d.ctx {
		return f()
	}
	if err := d.driver.SetCurrent(d.ctx); err != nil {
		return err
	}
	defer d.giveBack(before)
	return f()
}

// doing is Do for an f that gives something.
func doing[T any](d *Device, f func() (T, error)) (v T, err error) {
	err = d.Do(func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// giveBack makes a context current again. One that has been destroyed meanwhile is
// nobody's any more, and no reason to call what was done a failure.
func (d *Device) giveBack(before Context) {
	if err := d.driver.SetCurrent(before); err != nil {
		_ = d.driver.SetCurrent(0)
	}
}

// Alloc gives device memory, not zeroed.
func (d *Device) Alloc(bytes int) (*Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("nccl: alloc of %d bytes, want 1 or more", bytes)
	}
	p, err := doing(d, func() (Pointer, error) { return d.driver.Alloc(int64(bytes)) })
	if err != nil {
		return nil, fmt.Errorf("alloc %d bytes on device %d: %w", bytes, d.index, err)
	}
	return &Buffer{dev: d, p: p, size: bytes}, nil
}

// Import maps memory that another process has exported.
func (d *Device) Import(handle []byte, bytes int) (*Buffer, error) {
	h, offset, err := parseHandle(handle)
	if err != nil {
		return nil, err
	}
	p, err := doing(d, func() (Pointer, error) { return d.driver.Import(h) })
	if err != nil {
		return nil, fmt.Errorf("import device memory: %w", err)
	}
	return &Buffer{dev: d, p: p + offset, size: bytes, imported: true, offset: offset}, nil
}

// Buffer is memory on a device. It implements tensor.DeviceMemory. Safe for
// concurrent use but for Close.
type Buffer struct {
	dev      *Device
	p        Pointer
	size     int
	imported bool
	offset   Pointer // imported: into the allocation
	foreign  bool
}

var _ tensor.DeviceMemory = (*Buffer)(nil)

// Device implements tensor.DeviceMemory.
func (b *Buffer) Device() tensor.Device { return tensor.CUDA(b.dev.index) }

// NumBytes implements tensor.DeviceMemory.
func (b *Buffer) NumBytes() int { return b.size }

// Address implements tensor.DeviceMemory.
func (b *Buffer) Address() uintptr { return uintptr(b.p) }

// Export implements tensor.DeviceMemory.
func (b *Buffer) Export() ([]byte, error) {
	if b.imported {
		return nil, fmt.Errorf("%w: memory that was imported cannot be exported again", pg.ErrUnsupported)
	}
	handle, err := doing(b.dev, func() ([]byte, error) {
		if b.foreign {
			return b.dev.exportFrom(b.p)
		}
		h, err := b.dev.driver.Export(b.p)
		return h[:], err
	})
	if err != nil {
		return nil, fmt.Errorf("export device memory: %w", err)
	}
	return handle, nil
}

// CopyToHost implements tensor.DeviceMemory.
func (b *Buffer) CopyToHost(dst []byte, offset int) error {
	if err := b.bounds(len(dst), offset); err != nil {
		return err
	}
	return b.copy(func(s Stream) error { return b.dev.driver.CopyOut(dst, b.p+Pointer(offset), s) })
}

// CopyFromHost implements tensor.DeviceMemory.
func (b *Buffer) CopyFromHost(offset int, src []byte) error {
	if err := b.bounds(len(src), offset); err != nil {
		return err
	}
	return b.copy(func(s Stream) error { return b.dev.driver.CopyIn(b.p+Pointer(offset), src, s) })
}

func (b *Buffer) bounds(n, offset int) error {
	if offset < 0 || n > b.size-offset {
		return fmt.Errorf("nccl: copy of bytes %d to %d of device memory of %d", offset, offset+n, b.size)
	}
	return nil
}

// copy queues one on a stream of its own and waits for it.
func (b *Buffer) copy(queue func(s Stream) error) error {
	d := b.dev.driver
	return b.dev.Do(func() (err error) {
		s, err := d.NewStream(false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.DestroyStream(s)) }()
		if err := queue(s); err != nil {
			return err
		}
		return b.dev.reach(s, copyLimit)
	})
}

// reach waits on the host for all that is in s. The device is current.
func (d *Device) reach(s Stream, limit time.Duration) error {
	e, err := d.driver.Record(s)
	if err != nil {
		return err
	}
	return errors.Join(d.driver.Synchronize(e, limit), d.driver.DestroyEvent(e))
}

// Settle waits on the host until all that is now on the device's default stream is
// done, and so whatever that stream waits for: in CUDA, all streams but those that
// were made non-blocking. It makes ops of a Baby without an Order safe.
func (b *Buffer) Settle(limit time.Duration) error {
	return b.dev.Do(func() error { return b.dev.reach(0, limit) })
}

// Close frees the memory, or unmaps it if it is another process's. It leaves
// memory alone that Wrap was given.
func (b *Buffer) Close() error {
	if b.foreign {
		return nil
	}
	return b.dev.Do(func() error {
		if b.imported {
			return b.dev.driver.Unmap(b.p - b.offset)
		}
		return b.dev.driver.Free(b.p)
	})
}
