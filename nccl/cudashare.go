package nccl

import (
	"fmt"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// NewShared implements SharedEvents. Shared events measure no time: CUDA wants
// it so.
func (c *CUDA) NewShared() (Event, error) {
	var e uintptr
	err := c.check("cuEventCreate", c.f.eventCreate(&e, cudaDisableTiming|cudaInterprocess))
	return Event(e), err
}

// RecordShared implements SharedEvents.
func (c *CUDA) RecordShared(e Event, s Stream) error {
	return c.check("cuEventRecord", c.f.eventRecord(uintptr(e), uintptr(s)))
}

// ExportEvent implements SharedEvents.
func (c *CUDA) ExportEvent(e Event) (h IPCHandle, err error) {
	err = c.check("cuIpcGetEventHandle", c.f.eventExport(&h, uintptr(e)))
	return h, err
}

// ImportEvent implements SharedEvents.
func (c *CUDA) ImportEvent(h IPCHandle) (Event, error) {
	var e uintptr
	err := c.check("cuIpcOpenEventHandle", c.f.eventOpen(&e, ipcHandleByValue{h}))
	return Event(e), err
}

// WaitGate implements Gates.
func (c *CUDA) WaitGate(s Stream, b []byte, v uint32) error {
	if c.f.waitValue == nil {
		return fmt.Errorf("%w: %s lacks cuStreamWaitValue32", pg.ErrUnsupported, c.obj.path)
	}
	if len(b) < 4 {
		return fmt.Errorf("nccl: gate of %d bytes, want 4", len(b))
	}
	var p uintptr
	host := unsafe.Pointer(unsafe.SliceData(b))
	if err := c.check("cuMemHostGetDevicePointer_v2", c.f.hostPointer(&p, host, 0)); err != nil {
		return err
	}
	code := c.f.waitValue(uintptr(s), p, v, cudaWaitReached)
	err := c.check("cuStreamWaitValue32", code)
	if code == cudaNotSupported { // the kernel module, or the device, has it turned off
		return fmt.Errorf("%w: %w", pg.ErrUnsupported, err)
	}
	return err
}
