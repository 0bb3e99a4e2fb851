package nccl

import (
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// CUDA is libcuda, loaded at run time. It implements Driver. Safe for
// concurrent use, as the library is; what is current belongs to the thread.
type CUDA struct {
	obj *object
	f   cudaFunctions
}

var (
	_ Driver       = (*CUDA)(nil)
	_ SharedEvents = (*CUDA)(nil)
	_ Gates        = (*CUDA)(nil)
	_ Ranges       = (*CUDA)(nil)
)

// cudaFunctions are the symbols that CUDA 11, 12 and 13 have in common, and two that
// some lack. CUDA 11.7 brought the _v2 of the wait, which is always on; what was there
// before is refused unless the kernel module was told otherwise.
type cudaFunctions struct {
	init           func(flags uint32) int32                                            `sym:"cuInit"`
	getErrorName   func(code int32, name **byte) int32                                 `sym:"cuGetErrorName"`
	deviceGetCount func(n *int32) int32                                                `sym:"cuDeviceGetCount"`
	primaryRetain  func(ctx *Context, device int32) int32                              `sym:"cuDevicePrimaryCtxRetain"`
	primaryRelease func(device int32) int32                                            `sym:"cuDevicePrimaryCtxRelease_v2"`
	setCurrent     func(ctx Context) int32                                             `sym:"cuCtxSetCurrent"`
	getCurrent     func(ctx *Context) int32                                            `sym:"cuCtxGetCurrent"`
	memAlloc       func(p *Pointer, bytes uint64) int32                                `sym:"cuMemAlloc_v2"`
	memFree        func(p Pointer) int32                                               `sym:"cuMemFree_v2"`
	copyIn         func(dst Pointer, src unsafe.Pointer, bytes uint64, s Stream) int32 `sym:"cuMemcpyHtoDAsync_v2"`
	copyOut        func(dst unsafe.Pointer, src Pointer, bytes uint64, s Stream) int32 `sym:"cuMemcpyDtoHAsync_v2"`
	ipcGet         func(h *IPCHandle, p Pointer) int32                                 `sym:"cuIpcGetMemHandle"`
	ipcOpen        func(p *Pointer, h ipcHandleByValue, flags uint32) int32            `sym:"cuIpcOpenMemHandle_v2"`
	ipcClose       func(p Pointer) int32                                               `sym:"cuIpcCloseMemHandle"`
	hostAlloc      func(p *unsafe.Pointer, bytes uint64, flags uint32) int32           `sym:"cuMemHostAlloc"`
	hostFree       func(p unsafe.Pointer) int32                                        `sym:"cuMemFreeHost"`
	priorityRange  func(least, greatest *int32) int32                                  `sym:"cuCtxGetStreamPriorityRange"`
	streamCreate   func(s *Stream, flags uint32, priority int32) int32                 `sym:"cuStreamCreateWithPriority"`
	streamDestroy  func(s Stream) int32                                                `sym:"cuStreamDestroy_v2"`
	eventCreate    func(e *Event, flags uint32) int32                                  `sym:"cuEventCreate"`
	eventRecord    func(e Event, s Stream) int32                                       `sym:"cuEventRecord"`
	streamWait     func(s Stream, e Event, flags uint32) int32                         `sym:"cuStreamWaitEvent"`
	eventQuery     func(e Event) int32                                                 `sym:"cuEventQuery"`
	eventDestroy   func(e Event) int32                                                 `sym:"cuEventDestroy_v2"`
	eventExport    func(h *IPCHandle, e Event) int32                                   `sym:"cuIpcGetEventHandle"`
	eventOpen      func(e *Event, h ipcHandleByValue) int32                            `sym:"cuIpcOpenEventHandle"`
	hostPointer    func(p *Pointer, host unsafe.Pointer, flags uint32) int32           `sym:"cuMemHostGetDevicePointer_v2"`

	waitValue    func(s Stream, addr Pointer, v, flags uint32) int32 `sym:"cuStreamWaitValue32_v2 cuStreamWaitValue32" optional:"true"`
	addressRange func(base *Pointer, size *uint64, p Pointer) int32  `sym:"cuMemGetAddressRange_v2" optional:"true"`
}

// ipcHandleByValue is a handle as C passes it: purego takes no arrays.
type ipcHandleByValue struct{ bytes IPCHandle }

// Values of cuda.h.
const (
	cudaSuccess         = 0
	cudaNotReady        = 600
	cudaNotSupported    = 801
	cudaNonBlocking     = 1 // CU_STREAM_NON_BLOCKING
	cudaDisableTiming   = 2 // CU_EVENT_DISABLE_TIMING
	cudaIPCLazyPeer     = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
	cudaHostPortable    = 1 // CU_MEMHOSTALLOC_PORTABLE
	cudaHostMapped      = 2 // CU_MEMHOSTALLOC_DEVICEMAP
	cudaInterprocess    = 4 // CU_EVENT_INTERPROCESS
	cudaWaitReached     = 0 // CU_STREAM_WAIT_VALUE_GEQ: the numbers go round
	maxCString          = 256
	synchronizeInterval = 50 * time.Microsecond
)

// OpenCUDA loads libcuda: the first of paths, or the names that the system
// knows. Errors wrap ErrUnavailable.
func OpenCUDA(paths ...string) (*CUDA, error) {
	if len(paths) == 0 {
		paths = []string{"libcuda.so.1", "libcuda.so"}
	}
	obj, err := openObject("the CUDA driver (libcuda)", paths)
	if err != nil {
		return nil, err
	}
	c := &CUDA{obj: obj}
	if err := obj.bindAll(&c.f); err != nil {
		return nil, err
	}
	if err := c.check("cuInit", c.f.init(0)); err != nil {
		return nil, fmt.Errorf("%w: %w (is there a GPU, and its kernel driver?)", ErrUnavailable, err)
	}
	return c, nil
}

// CUDAError is a result of libcuda other than success.
type CUDAError struct {
	Func string
	Code int32
	Name string // CUDA_ERROR_…
}

func (e *CUDAError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Func, e.Name, e.Code) }

func (c *CUDA) check(name string, code int32) error {
	if code == cudaSuccess {
		return nil
	}
	e := &CUDAError{Func: name, Code: code, Name: "unknown error"}
	var p *byte
	if c.f.getErrorName(code, &p) == cudaSuccess && p != nil {
		e.Name = string(unsafe.Slice(p, stringLength(p)))
	}
	return e
}

func stringLength(p *byte) int {
	n := 0
	for n < maxCString && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return n
}

// Devices implements Contexts.
func (c *CUDA) Devices() (int, error) {
	var n int32
	err := c.check("cuDeviceGetCount", c.f.deviceGetCount(&n))
	return int(n), err
}

// Primary implements Contexts.
func (c *CUDA) Primary(device int) (ctx Context, err error) {
	err = c.check("cuDevicePrimaryCtxRetain", c.f.primaryRetain(&ctx, int32(device)))
	return ctx, err
}

// Release implements Contexts.
func (c *CUDA) Release(device int) error {
	return c.check("cuDevicePrimaryCtxRelease_v2", c.f.primaryRelease(int32(device)))
}

// SetCurrent implements Contexts.
func (c *CUDA) SetCurrent(ctx Context) error {
	return c.check("cuCtxSetCurrent", c.f.setCurrent(ctx))
}

// Current implements Contexts.
func (c *CUDA) Current() (ctx Context, err error) {
	err = c.check("cuCtxGetCurrent", c.f.getCurrent(&ctx))
	return ctx, err
}

// Alloc implements Memory.
func (c *CUDA) Alloc(bytes int64) (p Pointer, err error) {
	err = c.check("cuMemAlloc_v2", c.f.memAlloc(&p, uint64(bytes)))
	return p, err
}

// Free implements Memory.
func (c *CUDA) Free(p Pointer) error { return c.check("cuMemFree_v2", c.f.memFree(p)) }

// CopyIn implements Memory.
func (c *CUDA) CopyIn(dst Pointer, src []byte, s Stream) error {
	if len(src) == 0 {
		return nil
	}
	return c.check("cuMemcpyHtoDAsync_v2", c.f.copyIn(dst, pointerOf(src), uint64(len(src)), s))
}

// CopyOut implements Memory.
func (c *CUDA) CopyOut(dst []byte, src Pointer, s Stream) error {
	if len(dst) == 0 {
		return nil
	}
	return c.check("cuMemcpyDtoHAsync_v2", c.f.copyOut(pointerOf(dst), src, uint64(len(dst)), s))
}

// Export implements Memory.
func (c *CUDA) Export(p Pointer) (h IPCHandle, err error) {
	err = c.check("cuIpcGetMemHandle", c.f.ipcGet(&h, p))
	return h, err
}

// Import implements Memory.
func (c *CUDA) Import(h IPCHandle) (p Pointer, err error) {
	err = c.check("cuIpcOpenMemHandle_v2", c.f.ipcOpen(&p, ipcHandleByValue{h}, cudaIPCLazyPeer))
	return p, err
}

// Unmap implements Memory.
func (c *CUDA) Unmap(p Pointer) error {
	return c.check("cuIpcCloseMemHandle", c.f.ipcClose(p))
}

// AllocHost implements Memory.
func (c *CUDA) AllocHost(bytes int64) ([]byte, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("nccl: %d bytes of page-locked memory, want 1 or more", bytes)
	}
	var p unsafe.Pointer
	if err := c.check("cuMemHostAlloc", c.f.hostAlloc(&p, uint64(bytes), cudaHostPortable|cudaHostMapped)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreeHost implements Memory.
func (c *CUDA) FreeHost(b []byte) error {
	return c.check("cuMemFreeHost", c.f.hostFree(pointerOf(b)))
}

// NewStream implements Streams.
func (c *CUDA) NewStream(highPriority bool) (s Stream, err error) {
	var least, greatest int32
	if err := c.check("cuCtxGetStreamPriorityRange", c.f.priorityRange(&least, &greatest)); err != nil {
		return 0, err
	}
	priority := least
	if highPriority {
		priority = greatest
	}
	err = c.check("cuStreamCreateWithPriority", c.f.streamCreate(&s, cudaNonBlocking, priority))
	return s, err
}

// DestroyStream implements Streams.
func (c *CUDA) DestroyStream(s Stream) error {
	return c.check("cuStreamDestroy_v2", c.f.streamDestroy(s))
}

// Record implements Streams.
func (c *CUDA) Record(s Stream) (e Event, err error) {
	if err := c.check("cuEventCreate", c.f.eventCreate(&e, cudaDisableTiming)); err != nil {
		return 0, err
	}
	if err := c.RecordShared(e, s); err != nil {
		return 0, errors.Join(err, c.DestroyEvent(e))
	}
	return e, nil
}

// WaitEvent implements Streams.
func (c *CUDA) WaitEvent(s Stream, e Event) error {
	return c.check("cuStreamWaitEvent", c.f.streamWait(s, e, 0))
}

// Query implements Streams.
func (c *CUDA) Query(e Event) (bool, error) {
	code := c.f.eventQuery(e)
	if code == cudaNotReady {
		return false, nil
	}
	return code == cudaSuccess, c.check("cuEventQuery", code)
}

// Synchronize implements Streams. It polls, because cuEventSynchronize cannot be ended.
func (c *CUDA) Synchronize(e Event, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	tick := time.NewTicker(synchronizeInterval)
	defer tick.Stop()
	for {
		if done, err := c.Query(e); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nccl: device work had not ended after %v", timeout)
		}
		<-tick.C
	}
}

// DestroyEvent implements Streams.
func (c *CUDA) DestroyEvent(e Event) error {
	return c.check("cuEventDestroy_v2", c.f.eventDestroy(e))
}
