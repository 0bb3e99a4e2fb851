// Package gorgonia is [nccl.Driver] on top of gorgonia.org/cu, for programs that
// compute with gorgonia: both work with the same CUDA contexts, and what cu has
// allocated is a tensor of ours without a copy.
//
// It exists under the build tags cuda and cgo only, because cu needs the CUDA
// headers to compile and libcuda.so.1 to start. Without them this package is
// empty, and nccl.OpenCUDA is the driver. scripts/cuda-headers fetches headers,
// and runs a command with them:
//
//	scripts/cuda-headers go build -tags cuda ./...
//
// # Usage
//
//	driver, err := gorgonia.Open()
//	dev, err := nccl.OpenDevice(driver, 0)        // the primary context
//	err = cu.SetCurrentContext(driver.Context(0)) // cu works in it, too
//	p, err := cu.MemAlloc(4 << 20)
//	buf, err := dev.Wrap(nccl.Pointer(p), 4<<20)  // a tensor.DeviceMemory; p may lie in an arena
//	x, err := tensor.OnDevice(buf, tensor.Float32, 1<<20)
//	b, err := nccl.New(nccl.Options{Library: lib, Device: dev,
//		UserStream: func() nccl.Stream { return gorgonia.StreamOf(stream) }})
//
// A program that has made a context of its own hands it over before the device
// is opened: see [Driver.Use]. Prefer the primary context. NCCL's own threads
// choose a device, not a context, and so work in the primary one; memory of
// another context of the same device is not theirs to touch, unless the library
// is told to follow (NCCL_CREATE_THREAD_CONTEXT) or never needs to.
//
// # What cu lacks
//
// Contexts, device memory, copies, streams and events go through cu. Handles
// for other processes (IPC), page-locked host memory, and whatever else
// nccl.Driver asks for that cu v0.9.6 has no function for, go through the
// libcuda that cu has linked, opened by nccl.OpenCUDA: one library, so one set
// of handles.
//
// # What cu does by itself
//
// It initialises CUDA when it is imported, and ends the process (exit 1) if
// that fails: a binary with this package in it needs a GPU to start. Its
// NewContext panics on errors; nothing here calls it.
package gorgonia
