//go:build cuda && cgo

package gorgonia

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/tensor"
)

// These tests run on the fake libcuda of scripts/cuda-headers, and on a real one.

const waitLimit = 30 * time.Second

func open(t testing.TB) *Driver {
	t.Helper()
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openDevice(t testing.TB, d *Driver) *nccl.Device {
	t.Helper()
	dev, err := nccl.OpenDevice(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close device: %v", err)
		}
	})
	return dev
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// Every method of nccl.Driver does what it says.
func TestDriver(t *testing.T) {
	d := open(t)
	if n, err := d.Devices(); err != nil || n < 1 {
		t.Fatalf("devices: %d, %v; want 1 or more", n, err)
	}
	dev := openDevice(t, d)
	err := dev.Do(func() error {
		streams(t, d)
		memory(t, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func streams(t *testing.T, d *Driver) {
	low, err := d.NewStream(false)
	high, err2 := d.NewStream(true)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	e, err := d.Record(high)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WaitEvent(low, e); err != nil {
		t.Error(err)
	}
	after, err := d.Record(low)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Synchronize(after, waitLimit); err != nil {
		t.Error(err)
	}
	for _, e := range []nccl.Event{e, after} {
		if done, err := d.Query(e); !done || err != nil {
			t.Errorf("event: done %v, %v; want true", done, err)
		}
		if err := d.DestroyEvent(e); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []nccl.Stream{low, high} {
		if err := d.DestroyStream(s); err != nil {
			t.Error(err)
		}
	}
}

func memory(t *testing.T, d *Driver) {
	const size = 100_000
	p, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := d.AllocHost(size)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream(false)
	if err != nil {
		t.Fatal(err)
	}
	want := pattern(size)
	got := make([]byte, size)
	for _, err := range []error{
		d.CopyIn(p, want, s), d.CopyOut(pinned, p, s), d.CopyIn(p, nil, s), d.CopyOut(nil, p, s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := d.Record(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Synchronize(e, waitLimit); err != nil {
		t.Fatal(err)
	}
	copy(got, pinned)
	if !bytes.Equal(got, want) {
		t.Error("what was copied in and out is not the same")
	}
	h, err := d.Export(p)
	if err != nil || h == (nccl.IPCHandle{}) {
		t.Errorf("export: %x, %v", h, err)
	}
	if q, err := d.Import(h); err == nil {
		t.Errorf("import in the exporting process gave %#x, want an error", q)
	}
	for _, err := range []error{d.DestroyEvent(e), d.DestroyStream(s), d.FreeHost(pinned), d.Free(p)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Errors have the function's name, the code and its name, like those of
// nccl.OpenCUDA's driver.
func TestErrors(t *testing.T) {
	d := open(t)
	if _, err := Open("/nowhere/libcuda.so.1"); !errors.Is(err, nccl.ErrUnavailable) {
		t.Errorf("open of a path that is not there: %v, want ErrUnavailable", err)
	}
	dev := openDevice(t, d)
	const invalidValue, outOfMemory, invalidDevice = 1, 2, 101
	for _, c := range []struct {
		function string
		code     int32
		call     func() error
	}{
		{"cuMemAlloc", invalidValue, func() error { _, err := d.Alloc(0); return err }},
		{"cuMemAlloc", outOfMemory, func() error { _, err := d.Alloc(1 << 50); return err }},
		{"cuDevicePrimaryCtxRetain", invalidDevice, func() error { _, err := d.Primary(1 << 20); return err }},
	} {
		err := dev.Do(c.call)
		e, ok := errors.AsType[*nccl.CUDAError](err)
		if !ok || e.Func != c.function || e.Code != c.code || e.Name == "" {
			t.Errorf("%v, want a CUDAError of %s with code %d and a name", err, c.function, c.code)
		}
	}
	if err := d.Use(cu.CPU, cu.CUContext{}); err == nil {
		t.Error("Use of no context was taken")
	}
}

// locked runs f on one thread.
func locked(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	if err := cu.SetCurrentContext(cu.CUContext{}); err != nil {
		t.Error(err)
	}
}

// cu works in the context that our device is opened with, and what it allocates
// there is ours to use as it is.
func TestSharedWithPrimary(t *testing.T) {
	d := open(t)
	if ctx := d.Context(0); ctx != (cu.CUContext{}) {
		t.Errorf("context before the device was opened: %v, want none", ctx)
	}
	dev := openDevice(t, d)
	locked(t, func() {
		if err := cu.SetCurrentContext(d.Context(0)); err != nil {
			t.Fatal(err)
		}
		share(t, dev)
	})
}

// A context that a program of gorgonia has made is used in place of the primary
// one, by us too.
func TestSharedWithOwn(t *testing.T) {
	d := open(t)
	gpu, err := cu.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	locked(t, func() {
		ctx, err := gpu.MakeContext(cu.SchedAuto)
		if err != nil {
			t.Fatal(err)
		}
		other, err := gpu.MakeContext(cu.SchedAuto)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Use(gpu, ctx), d.Use(gpu, ctx)); err != nil {
			t.Fatal(err)
		}
		if err := d.Use(gpu, other); err == nil {
			t.Error("a second context for one device was taken")
		}
		if err := errors.Join(other.Destroy(), cu.SetCurrentContext(ctx)); err != nil {
			t.Fatal(err)
		}
		dev, err := nccl.OpenDevice(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Context(0); got != ctx {
			t.Errorf("context %v, want ours, %v", got, ctx)
		}
		share(t, dev)
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if now, err := cu.CurrentContext(); err != nil || now != ctx {
			t.Errorf("after Close the context is %v, %v; want %v", now, err, ctx)
		}
		if err := ctx.Destroy(); err != nil { // Close has left it alone
			t.Error(err)
		}
	})
}

// share moves bytes between cu and us through one block of memory that cu made.
// The context is current.
func share(t *testing.T, dev *nccl.Device) {
	t.Helper()
	const size = 4096
	before, err := cu.CurrentContext()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cu.MemAlloc(size)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := dev.Wrap(nccl.Pointer(p), size)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.OnDevice(buf, tensor.Float32, size/4)
	if err != nil {
		t.Fatal(err)
	}
	if x.Device() != tensor.CUDA(0) || x.NumBytes() != size {
		t.Errorf("tensor of %d bytes on %v, want %d on %v", x.NumBytes(), x.Device(), size, tensor.CUDA(0))
	}
	want, got := pattern(size), make([]byte, size)
	if err := cu.MemcpyHtoD(p, unsafe.Pointer(&want[0]), size); err != nil {
		t.Fatal(err)
	}
	if err := buf.CopyToHost(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what cu wrote was not read by us: %v", err)
	}
	want = bytes.Repeat([]byte{42}, size)
	if err := buf.CopyFromHost(0, want); err != nil {
		t.Fatal(err)
	}
	if err := cu.MemcpyDtoH(unsafe.Pointer(&got[0]), p, size); err != nil || !bytes.Equal(got, want) {
		t.Errorf("what we wrote was not read by cu: %v", err)
	}
	if now, err := cu.CurrentContext(); err != nil || now != before {
		t.Errorf("our calls left context %v, %v; want %v", now, err, before)
	}
	if err := buf.Close(); err != nil {
		t.Error(err)
	}
	if err := cu.MemFree(p); err != nil { // Close has left it alone
		t.Error(err)
	}
}

// Streams and events are the same on both sides.
func TestHandles(t *testing.T) {
	d := open(t)
	dev := openDevice(t, d)
	locked(t, func() {
		if err := cu.SetCurrentContext(d.Context(0)); err != nil {
			t.Fatal(err)
		}
		s, err := cu.MakeStream(cu.NonBlocking)
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.Record(StreamOf(s))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := cu.MakeEvent(cu.DisableTiming)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			d.Synchronize(e, waitLimit), d.DestroyEvent(e), ours.Record(s),
			d.WaitEvent(StreamOf(s), EventOf(ours)), d.Synchronize(EventOf(ours), waitLimit),
			d.DestroyEvent(EventOf(ours)), d.DestroyStream(StreamOf(s)),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	_ = dev
}

// What is asked of the device leaves the context of a thread that cu works on.
func TestThreadKeepsItsContext(t *testing.T) {
	d := open(t)
	dev := openDevice(t, d)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := cu.Device(0).MakeContext(cu.SchedAuto)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := own.Destroy(); err != nil {
			t.Error(err)
		}
	}()
	if err := cu.SetCurrentContext(own); err != nil {
		t.Fatal(err)
	}
	buf, err := dev.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	if err := buf.Close(); err != nil {
		t.Error(err)
	}
	if now, err := cu.CurrentContext(); err != nil || now != own {
		t.Errorf("the thread has context %v (%v), want its own, %v", now, err, own)
	}
}
