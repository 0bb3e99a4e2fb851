package nccl

import (
	"errors"
	"time"
)

// ErrUnavailable is returned when libnccl or libcuda cannot be opened, joined
// with what was looked for and where. Use a CPU backend, or install the library.
var ErrUnavailable = errors.New("nccl: library not available")

// The handles of a Driver are opaque and belong to the Driver that made them.
type (
	Context uintptr // a device context
	Stream  uintptr // a queue of device work; 0 is the default stream
	Event   uintptr // a point in a stream
	Pointer uintptr // device memory
)

// IPCHandle names device memory, or an event, across processes.
type IPCHandle [64]byte

// Driver is what the NCCL backend needs of CUDA. A call that may block is made
// on a thread of its own and returns by itself once the device answers. Calls
// other than those of Contexts are for the device that is current on the thread.
// Methods return errors that name the driver's function and its result code.
type Driver interface {
	Contexts
	Memory
	Streams
}

// Contexts finds devices and makes their contexts current on this thread.
type Contexts interface {
	Devices() (int, error)
	// Primary retains the primary context of a device.
	Primary(device int) (Context, error)
	Release(device int) error
	// SetCurrent makes a context current on this thread; 0 is none.
	SetCurrent(c Context) error
	// Current is what is current on this thread, 0 if nothing is.
	Current() (Context, error)
}

// Memory allocates, copies and shares.
type Memory interface {
	Alloc(bytes int64) (Pointer, error)
	Free(p Pointer) error
	// CopyIn and CopyOut queue a copy on s; src and dst belong to the driver
	// until s has done it.
	CopyIn(dst Pointer, src []byte, s Stream) error
	CopyOut(dst []byte, src Pointer, s Stream) error
	Export(p Pointer) (IPCHandle, error)
	// Import maps memory of another process until Unmap.
	Import(h IPCHandle) (Pointer, error)
	Unmap(p Pointer) error
	// AllocHost gives page-locked host memory, which copies faster.
	AllocHost(bytes int64) ([]byte, error)
	FreeHost(b []byte) error
}

// Streams orders device work.
type Streams interface {
	NewStream(highPriority bool) (Stream, error)
	DestroyStream(s Stream) error
	// Record makes an event that is done when all work now in s is.
	Record(s Stream) (Event, error)
	// WaitEvent makes s wait on the device for e; the caller does not wait.
	WaitEvent(s Stream, e Event) error
	// Query tells whether e is done.
	Query(e Event) (bool, error)
	// Synchronize waits on the host until e is done or the timeout has passed.
	Synchronize(e Event, timeout time.Duration) error
	DestroyEvent(e Event) error
}

// SharedEvents is implemented by a Driver whose events go to other processes of
// this host. Without it there is no Order, and a Baby waits on the host for the
// default stream (Buffer.Settle) at every Submit.
//
// The process that made an event must keep it as long as another has it open:
// to use it afterwards is undefined.
type SharedEvents interface {
	// NewShared makes an event that can be exported. It counts as done until it
	// is recorded. DestroyEvent ends it, and one that was imported.
	NewShared() (Event, error)
	// RecordShared records e once more: who waits for it from now on waits for
	// what is in s now.
	RecordShared(e Event, s Stream) error
	ExportEvent(e Event) (IPCHandle, error)
	// ImportEvent opens an event of another process.
	ImportEvent(h IPCHandle) (Event, error)
}

// Gates is implemented by a Driver whose streams can wait for a number in host
// memory. Without it a stream's wait for a Work is one of the host.
type Gates interface {
	// WaitGate makes s wait on the device until the number in the first four
	// bytes of b, which AllocHost gave, has counted up to v, or beyond. B belongs
	// to the driver until then.
	WaitGate(s Stream, b []byte, v uint32) error
}
