package nccl

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// onStream makes a stream until the test ends.
func onStream(t *testing.T, d *Device) Stream {
	t.Helper()
	var s Stream
	err := d.Do(func() (err error) {
		s, err = d.driver.NewStream(false)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Do(func() error { return d.driver.DestroyStream(s) }); err != nil {
			t.Error(err)
		}
	})
	return s
}

// reached tells whether s has done all that is in it now, within limit.
func reached(t *testing.T, d *Device, s Stream, limit time.Duration) bool {
	t.Helper()
	done := false
	err := d.Do(func() error {
		e, err := d.driver.Record(s)
		if err != nil {
			return err
		}
		done = d.driver.Synchronize(e, limit) == nil
		return d.driver.DestroyEvent(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A stream that follows a Work stands still until the Work is done, with or
// without an error, while the host goes on; gates are used again.
func TestFollow(t *testing.T) {
	f := open(t)
	d := f.device(t, 0)
	s := onStream(t, d)
	for _, result := range []error{nil, errors.New("some op has failed")} {
		for range 3 {
			op := &pg.Op{Kind: pg.KindBarrier}
			first, second := pg.NewWork(op), pg.NewWork(op)
			for _, w := range []*pg.Work{first, second} {
				if err := d.Follow(t.Context(), s, w); err != nil {
					t.Fatal(err)
				}
			}
			first.Complete(result)
			if reached(t, d, s, 5*time.Millisecond) {
				t.Fatal("the stream went on before the second Work was done")
			}
			second.Complete(nil)
			if !reached(t, d, s, time.Minute) {
				t.Fatal("the stream stands still after the Works are done")
			}
		}
	}
	if free := len(d.gates.mu.free); free != gateBytes/gateStride {
		t.Errorf("%d gates are free, want %d", free, gateBytes/gateStride)
	}
	done := pg.Finished(&pg.Op{Kind: pg.KindBarrier}, nil)
	if err := d.Follow(t.Context(), s, done); err != nil || !reached(t, d, s, time.Minute) {
		t.Errorf("a Work that is done already: %v, want the stream to go on", err)
	}
}

// plain hides what a driver may have beside what it must.
type plain struct{ Driver }

// Without gates the host waits, and no longer than its context.
func TestFollowWithoutGates(t *testing.T) {
	f := open(t)
	d, err := OpenDevice(plain{f.driver}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s := onStream(t, d)
	w := pg.NewWork(&pg.Op{Kind: pg.KindBarrier})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := d.Follow(ctx, s, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline of the context", err)
	}
	w.Complete(errors.New("the op's own affair"))
	if err := d.Follow(t.Context(), s, w); err != nil {
		t.Errorf("of a Work that is done: %v", err)
	}
	f.gatesOff(1) // as the kernel module may have them
	defer f.gatesOff(0)
	off, waited := f.device(t, 0), pg.NewWork(&pg.Op{Kind: pg.KindBarrier})
	if err := off.Follow(ctx, s, waited); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with gates turned off: %v, want the deadline of the context", err)
	}
	if len(off.gates.mu.free) != gateBytes/gateStride {
		t.Error("a gate that was turned off is not given back")
	}
	if _, err := NewOrder(OrderOptions{Devices: []*Device{d}}); !errors.Is(err, pg.ErrUnsupported) {
		t.Errorf("an Order without shared events: %v, want ErrUnsupported", err)
	}
}

// Marks are made once, used again, and gone after Close; a device that is none
// of the Order's is named.
func TestMarks(t *testing.T) {
	f := open(t)
	d := f.device(t, 1)
	before := f.shared()
	o, err := NewOrder(OrderOptions{Devices: []*Device{d}})
	if err != nil {
		t.Fatal(err)
	}
	_, giveFirst, err := o.Mark(tensor.CUDA(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		handle, give, err := o.Mark(tensor.CUDA(1))
		if err != nil || len(handle) != len(IPCHandle{}) {
			t.Fatalf("mark: handle of %d bytes, %v", len(handle), err)
		}
		give()
		give() // is nothing
	}
	if made, used := o.Marks(); made != 2 || used != 1 || f.shared() != before+2 {
		t.Errorf("%d made, %d used, %d in the library; want 2, 1, 2", made, used, f.shared()-before)
	}
	if _, _, err := o.Mark(tensor.CUDA(0)); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("mark of another device: %v, want ErrInvalidOp", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	giveFirst()
	if made, used := o.Marks(); made != 0 || used != 0 {
		t.Errorf("after Close: %d made, %d used; want none", made, used)
	}
	testkit.Eventually(t, "the library has its events back", func() bool { return f.shared() == before })
	if _, _, err := o.Mark(tensor.CUDA(1)); !errors.Is(err, pg.ErrClosed) {
		t.Errorf("mark after Close: %v, want ErrClosed", err)
	}
}
