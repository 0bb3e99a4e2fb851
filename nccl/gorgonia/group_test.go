//go:build cuda && cgo

package gorgonia_test

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/nccl/gorgonia"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// A group of NCCL adds what cu has allocated and filled, and cu reads the sum:
// on two devices if there are two, else alone.
func TestGroup(t *testing.T) {
	lib, err := nccl.OpenLibrary()
	if err != nil {
		t.Skip(err)
	}
	driver, err := gorgonia.Open()
	if err != nil {
		t.Fatal(err)
	}
	devices, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var members []pgtest.Member
	var tensors []tensor.Tensor
	var memory []cu.DevicePtr
	const count = 1000
	for rank := range min(2, devices) {
		dev, err := nccl.OpenDevice(driver, rank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		p, x := filled(t, dev, slices.Repeat([]float32{float32(rank + 1)}, count))
		memory, tensors = append(memory, p), append(tensors, x)
		b, err := nccl.New(nccl.Options{Library: lib, Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, w.Join(string(rune('a'+rank)), b))
	}
	w.Configure(members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		return g.AllReduce(ctx, tensors[rank], tensor.Sum)
	})
	want := float32(len(members) * (len(members) + 1) / 2)
	for rank, p := range memory {
		got := make([]float32, count)
		inContext(t, driver.Context(rank), func() error {
			return cu.MemcpyDtoH(unsafe.Pointer(&got[0]), p, count*4)
		})
		if i := slices.IndexFunc(got, func(v float32) bool { return v != want }); i >= 0 {
			t.Errorf("rank %d: element %d is %v, want %v", rank, i, got[i], want)
		}
		inContext(t, driver.Context(rank), func() error { return cu.MemFree(p) })
	}
}

// filled is memory of cu with those values in it, and the tensor that it is.
func filled(t *testing.T, dev *nccl.Device, values []float32) (p cu.DevicePtr, x tensor.Tensor) {
	t.Helper()
	bytes := 4 * len(values)
	err := dev.Do(func() (err error) {
		if p, err = cu.MemAlloc(int64(bytes)); err != nil {
			return err
		}
		return cu.MemcpyHtoD(p, unsafe.Pointer(&values[0]), int64(bytes))
	})
	if err != nil {
		t.Fatal(err)
	}
	buf, err := dev.Wrap(nccl.Pointer(p), bytes)
	if err != nil {
		t.Fatal(err)
	}
	if x, err = tensor.OnDevice(buf, tensor.Float32, len(values)); err != nil {
		t.Fatal(err)
	}
	return p, x
}

func inContext(t *testing.T, ctx cu.CUContext, f func() error) {
	t.Helper()
	if err := ctx.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := f(); err != nil {
		t.Error(err)
	}
	if err := ctx.Unlock(); err != nil {
		t.Error(err)
	}
}
