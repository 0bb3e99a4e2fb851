//go:build cuda && cgo

package gorgonia

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/skerry-ft/skerry/nccl"
)

// Driver implements nccl.Driver with gorgonia.org/cu. Safe for concurrent use,
// as libcuda is; what is current belongs to the thread.
type Driver struct {
	*nccl.CUDA // what cu lacks

	mu struct {
		sync.Mutex

		given    map[int]cu.CUContext // by Use
		retained map[int]cu.CUContext // by Primary, the last of a device
	}
}

var _ nccl.Driver = (*Driver)(nil)

// The handles of both sides are one pointer each.
var (
	_ [unsafe.Sizeof(nccl.Context(0)) - unsafe.Sizeof(cu.CUContext{})]struct{}
	_ [unsafe.Sizeof(nccl.Stream(0)) - unsafe.Sizeof(cu.Stream{})]struct{}
	_ [unsafe.Sizeof(nccl.Event(0)) - unsafe.Sizeof(cu.Event{})]struct{}
)

// Open gives the driver. For what cu lacks it opens libcuda: paths are as in
// nccl.OpenCUDA, and must lead to the library that this program is linked with,
// which the default does.
func Open(paths ...string) (*Driver, error) {
	loaded, err := nccl.OpenCUDA(paths...)
	if err != nil {
		return nil, fmt.Errorf("open what gorgonia.org/cu lacks: %w", err)
	}
	d := &Driver{CUDA: loaded}
	d.mu.given = make(map[int]cu.CUContext)
	d.mu.retained = make(map[int]cu.CUContext)
	return d, nil
}

// Use makes ctx what Primary answers for a device from now on, in place of the
// primary context. It stays the caller's: destroy it after everything on the
// device is closed. Call it before nccl.OpenDevice.
func (d *Driver) Use(dev cu.Device, ctx cu.CUContext) error {
	if !dev.IsGPU() || ctx == (cu.CUContext{}) {
		return fmt.Errorf("gorgonia: context %v of %v, want one of a GPU", ctx, dev)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.mu.given[int(dev)]; ok && old != ctx {
		return fmt.Errorf("gorgonia: %v has context %v already", dev, old)
	}
	d.mu.given[int(dev)] = ctx
	return nil
}

// Context is the context that a device was last opened with, for cu. It is the
// zero context before that. Do not put it into a cu.Ctx, whose finalizer
// destroys what it holds.
func (d *Driver) Context(device int) cu.CUContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx, ok := d.mu.given[device]; ok {
		return ctx
	}
	return d.mu.retained[device]
}

// ContextOf is ctx as nccl's.
func ContextOf(ctx cu.CUContext) nccl.Context { return *(*nccl.Context)(unsafe.Pointer(&ctx)) }

// StreamOf is s as nccl's, for nccl.Options.UserStream.
func StreamOf(s cu.Stream) nccl.Stream { return *(*nccl.Stream)(unsafe.Pointer(&s)) }

// EventOf is e as nccl's.
func EventOf(e cu.Event) nccl.Event { return *(*nccl.Event)(unsafe.Pointer(&e)) }

func cuContext(ctx nccl.Context) cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&ctx)) }
func cuStream(s nccl.Stream) cu.Stream        { return *(*cu.Stream)(unsafe.Pointer(&s)) }
func cuEvent(e nccl.Event) cu.Event           { return *(*cu.Event)(unsafe.Pointer(&e)) }

// Devices implements nccl.Contexts.
func (d *Driver) Devices() (int, error) {
	n, err := cu.NumDevices()
	return n, check("cuDeviceGetCount", err)
}

// Primary implements nccl.Contexts: it retains the primary context, or gives
// what Use was given.
func (d *Driver) Primary(device int) (nccl.Context, error) {
	d.mu.Lock()
	ctx, ok := d.mu.given[device]
	d.mu.Unlock()
	if ok {
		return ContextOf(ctx), nil
	}
	ctx, err := cu.Device(device).RetainPrimaryCtx()
	if err != nil {
		return 0, check("cuDevicePrimaryCtxRetain", err)
	}
	d.mu.Lock()
	d.mu.retained[device] = ctx
	d.mu.Unlock()
	return ContextOf(ctx), nil
}

// Release implements nccl.Contexts. It leaves a context of Use alone.
func (d *Driver) Release(device int) error {
	d.mu.Lock()
	_, ok := d.mu.given[device]
	d.mu.Unlock()
	if ok {
		return nil
	}
	return check("cuDevicePrimaryCtxRelease", cu.Device(device).ReleasePrimaryCtx())
}

// SetCurrent implements nccl.Contexts.
func (d *Driver) SetCurrent(c nccl.Context) error {
	return check("cuCtxSetCurrent", cu.SetCurrentContext(cuContext(c)))
}

// Alloc implements nccl.Memory.
func (d *Driver) Alloc(bytes int64) (nccl.Pointer, error) {
	p, err := cu.MemAlloc(bytes)
	return nccl.Pointer(p), check("cuMemAlloc", err)
}

// Free implements nccl.Memory.
func (d *Driver) Free(p nccl.Pointer) error {
	return check("cuMemFree", cu.MemFree(cu.DevicePtr(p)))
}

// CopyIn implements nccl.Memory.
func (d *Driver) CopyIn(dst nccl.Pointer, src []byte, s nccl.Stream) error {
	if len(src) == 0 {
		return nil
	}
	return check("cuMemcpyHtoDAsync",
		cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)), cuStream(s)))
}

// CopyOut implements nccl.Memory.
func (d *Driver) CopyOut(dst []byte, src nccl.Pointer, s nccl.Stream) error {
	if len(dst) == 0 {
		return nil
	}
	return check("cuMemcpyDtoHAsync",
		cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)), cuStream(s)))
}

// NewStream implements nccl.Streams.
func (d *Driver) NewStream(highPriority bool) (nccl.Stream, error) {
	least, greatest, err := cu.StreamPriorityRange()
	if err != nil {
		return 0, check("cuCtxGetStreamPriorityRange", err)
	}
	priority := least
	if highPriority {
		priority = greatest
	}
	s, err := cu.MakeStreamWithPriority(priority, cu.NonBlocking)
	return StreamOf(s), check("cuStreamCreateWithPriority", err)
}

// DestroyStream implements nccl.Streams.
func (d *Driver) DestroyStream(s nccl.Stream) error {
	stream := cuStream(s)
	return check("cuStreamDestroy", stream.Destroy())
}

// Record implements nccl.Streams.
func (d *Driver) Record(s nccl.Stream) (nccl.Event, error) {
	e, err := cu.MakeEvent(cu.DisableTiming)
	if err != nil {
		return 0, check("cuEventCreate", err)
	}
	if err := check("cuEventRecord", e.Record(cuStream(s))); err != nil {
		return 0, errors.Join(err, d.DestroyEvent(EventOf(e)))
	}
	return EventOf(e), nil
}

// WaitEvent implements nccl.Streams.
func (d *Driver) WaitEvent(s nccl.Stream, e nccl.Event) error {
	return check("cuStreamWaitEvent", cuStream(s).Wait(cuEvent(e), 0))
}

// Query implements nccl.Streams.
func (d *Driver) Query(e nccl.Event) (bool, error) {
	err := cuEvent(e).Query()
	if err == error(cu.NotReady) {
		return false, nil
	}
	return err == nil, check("cuEventQuery", err)
}

// DestroyEvent implements nccl.Streams.
func (d *Driver) DestroyEvent(e nccl.Event) error {
	event := cuEvent(e)
	return check("cuEventDestroy", cu.DestroyEvent(&event))
}
