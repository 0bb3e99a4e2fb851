package nccl

import (
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// NewShared implements SharedEvents. Shared events measure no time: CUDA wants
// it so.
func (c *CUDA) NewShared() (e Event, err error) {
	err = c.check("cuEventCreate", c.f.eventCreate(&e, cudaDisableTiming|cudaInterprocess))
	return e, err
}

// RecordShared implements SharedEvents.
func (c *CUDA) RecordShared(e Event, s Stream) error {
	return c.check("cuEventRecord", c.f.eventRecord(e, s))
}

// ExportEvent implements SharedEvents.
func (c *CUDA) ExportEvent(e Event) (h IPCHandle, err error) {
	err = c.check("cuIpcGetEventHandle", c.f.eventExport(&h, e))
	return h, err
}

// ImportEvent implements SharedEvents.
func (c *CUDA) ImportEvent(h IPCHandle) (e Event, err error) {
	err = c.check("cuIpcOpenEventHandle", c.f.eventOpen(&e, ipcHandleByValue{h}))
	return e, err
}

// WaitGate implements Gates.
func (c *CUDA) WaitGate(s Stream, b []byte, v uint32) error {
	if c.f.waitValue == nil {
		return fmt.Errorf("%w: %s lacks cuStreamWaitValue32", pg.ErrUnsupported, c.obj.path)
	}
	if len(b) < 4 {
		return fmt.Errorf("nccl: gate of %d bytes, want 4", len(b))
	}
	var p Pointer
	if err := c.check("cuMemHostGetDevicePointer_v2", c.f.hostPointer(&p, pointerOf(b), 0)); err != nil {
		return err
	}
	code := c.f.waitValue(s, p, v, cudaWaitReached)
	err := c.check("cuStreamWaitValue32", code)
	if code == cudaNotSupported { // the kernel module, or the device, has it turned off
		return fmt.Errorf("%w: %w", pg.ErrUnsupported, err)
	}
	return err
}
