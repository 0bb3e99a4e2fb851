package nccl

import (
	"errors"
	"runtime"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// A caller's thread that computes on one device has that context afterwards,
// whatever it asked for on another one.
func TestThreadKeepsItsContext(t *testing.T) {
	f := open(t)
	dev, own := f.device(t, 0), f.device(t, 1)
	b, err := New(Options{Library: f.lib, Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	order, err := NewOrder(OrderOptions{Devices: []*Device{dev}})
	if err != nil {
		t.Fatal(err)
	}
	defer order.Close()
	x := onDeviceOf(t, dev, tensor.Of([]float32{1, 2}))
	mem, _ := x.Memory()
	s := onStream(t, dev)
	var work *pg.Work
	steps := []struct {
		name string
		do   func() error
	}{
		{"Alloc", func() error {
			buf, err := dev.Alloc(64)
			return errors.Join(err, buf.Close())
		}},
		{"Submit", func() error {
			work = w.Groups[0].AllReduceAsync(x, tensor.Sum)
			return nil
		}},
		{"Follow", func() error { return dev.Follow(t.Context(), s, work) }},
		{"WaitStream", func() error { return b.WaitStream(t.Context(), s) }},
		{"Mark", func() error {
			_, release, err := order.Mark(tensor.CUDA(0))
			release()
			return err
		}},
		{"Export", func() error {
			_, err := mem.Export()
			return err
		}},
		{"CopyToHost", func() error { return mem.CopyToHost(make([]byte, 4), 0) }},
	}
	for name, before := range map[string]Context{"another device": own.ctx, "none": 0} {
		runtime.LockOSThread()
		if err := f.driver.SetCurrent(before); err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if now, err := f.driver.Current(); err != nil || now != before {
				t.Errorf("%s on a thread of %s left context %v (%v), want %v", step.name, name, now, err, before)
			}
		}
		if err := f.driver.SetCurrent(0); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
		if err := work.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
