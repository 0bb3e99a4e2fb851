package tensor

import "fmt"

// DeviceType says what kind of processor owns a tensor's memory.
type DeviceType uint8

// The device types.
const (
	DeviceCPU DeviceType = iota
	DeviceCUDA
)

// String is torch's name of the type: "cpu", "cuda".
func (t DeviceType) String() string {
	switch t {
	case DeviceCPU:
		return "cpu"
	case DeviceCUDA:
		return "cuda"
	default:
		return fmt.Sprintf("device(%d)", uint8(t))
	}
}

// Device is where a tensor lies. The zero value is the CPU.
type Device struct {
	Type  DeviceType
	Index int // of the GPU; 0 for the CPU
}

// CPU is the device of all tensors over Go slices.
func CPU() Device { return Device{} }

// CUDA is the i-th CUDA device.
func CUDA(i int) Device { return Device{Type: DeviceCUDA, Index: i} }

// String is torch's spelling: "cpu", "cuda:1".
func (d Device) String() string {
	if d.Type == DeviceCPU {
		return d.Type.String()
	}
	return fmt.Sprintf("%v:%d", d.Type, d.Index)
}

// DeviceMemory is memory that this process owns and the CPU cannot address.
// Package nccl implements it; pg/baby shares it with a child. Implementations
// are safe for concurrent use; the copies block until the bytes are there.
type DeviceMemory interface {
	Device() Device
	NumBytes() int
	// Address is the device address of the first byte.
	Address() uintptr
	// Export returns a handle by which another process on this host maps the
	// same memory (CUDA IPC), or an error that is
	// errors.ErrUnsupported if there is none.
	Export() ([]byte, error)
	// CopyToHost fills dst from the memory at offset bytes.
	CopyToHost(dst []byte, offset int) error
	// CopyFromHost writes src to the memory at offset bytes.
	CopyFromHost(offset int, src []byte) error
}

// OnHost is t, or a copy of it in host memory if it lies on a device. It blocks until
// the bytes are there; the error is the memory's.
func (t Tensor) OnHost() (Tensor, error) {
	mem, offset := t.Memory()
	if mem == nil {
		return t, nil
	}
	host := New(t.DType(), t.Shape()...)
	if err := mem.CopyToHost(host.Bytes(), offset); err != nil {
		return Tensor{}, fmt.Errorf("copy %v to the host: %w", t, err)
	}
	return host, nil
}
