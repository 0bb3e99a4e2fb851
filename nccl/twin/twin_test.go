package twin_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/nccl/twin"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver is as much of CUDA as a Twin needs, with host memory for the device's. What is queued
// is done at once. Safe for concurrent use.
type driver struct {
	nccl.Driver // nil: what a Twin does not call

	mu sync.Mutex

	memory  map[nccl.Pointer][]byte
	handles uintptr
	fault   error // of the next copy to the host; nil: none
	live    int   // streams, events and host memory that have not been given back
}

func (d *driver) Devices() (int, error)             { return 1, nil }
func (d *driver) Primary(int) (nccl.Context, error) { return 1, nil }
func (d *driver) Release(int) error                 { return nil }
func (d *driver) SetCurrent(nccl.Context) error     { return nil }
func (d *driver) Current() (nccl.Context, error)    { return 1, nil }

// next is a handle that no other thing has.
func (d *driver) next(live int) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handles++
	d.live += live
	return d.handles
}

func (d *driver) gone() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live--
	return nil
}

func (d *driver) NewStream(bool) (nccl.Stream, error)         { return nccl.Stream(d.next(1)), nil }
func (d *driver) DestroyStream(nccl.Stream) error             { return d.gone() }
func (d *driver) Record(nccl.Stream) (nccl.Event, error)      { return nccl.Event(d.next(1)), nil }
func (d *driver) DestroyEvent(nccl.Event) error               { return d.gone() }
func (d *driver) WaitEvent(nccl.Stream, nccl.Event) error     { return nil }
func (d *driver) Query(nccl.Event) (bool, error)              { return true, nil }
func (d *driver) Synchronize(nccl.Event, time.Duration) error { return nil }
func (d *driver) FreeHost([]byte) error                       { return d.gone() }
func (d *driver) CopyIn(to nccl.Pointer, b []byte, _ nccl.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.memory[to], b)
	return nil
}

func (d *driver) CopyOut(b []byte, from nccl.Pointer, _ nccl.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.fault
	d.fault = nil
	if err == nil {
		copy(b, d.memory[from])
	}
	return err
}

func (d *driver) AllocHost(bytes int64) ([]byte, error) {
	d.next(1)
	return tensor.New(tensor.Complex128, int(bytes+15)/16).Bytes()[:bytes], nil // aligned
}

func (d *driver) Alloc(bytes int64) (nccl.Pointer, error) {
	p := nccl.Pointer(d.next(0) << 20)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[p] = make([]byte, bytes)
	return p, nil
}

func (d *driver) Free(p nccl.Pointer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.memory, p)
	return nil
}

// failOnce makes the next copy to the host fail.
func (d *driver) failOnce(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = err
}

// model is a state on the device: of one tensor, by its Twin.
type model struct {
	*twin.Twin

	driver *driver
	w      *nccl.Buffer
}

func newModel(t *testing.T) *model {
	t.Helper()
	d := &driver{memory: make(map[nccl.Pointer][]byte)}
	dev, err := nccl.OpenDevice(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{driver: d}
	if m.w, err = dev.Alloc(8); err != nil {
		t.Fatal(err)
	}
	w, err := tensor.OnDevice(m.w, tensor.Float32, 2)
	if err != nil {
		t.Fatal(err)
	}
	if m.Twin, err = twin.New(dev, map[string]tensor.Tensor{"w": w}, twin.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), m.w.Close(), dev.Close()); err != nil || d.live != 0 {
			t.Errorf("close: %v, with %d things left", err, d.live)
		}
	})
	return m
}

// set writes to the device, and get reads from it.
func (m *model) set(t *testing.T, v float32) {
	t.Helper()
	if err := m.w.CopyFromHost(0, tensor.Of([]float32{v, -v}).Bytes()); err != nil {
		t.Fatal(err)
	}
}

func (m *model) get(t *testing.T) float32 {
	t.Helper()
	got := make([]float32, 2)
	if err := m.w.CopyToHost(tensor.Of(got).Bytes(), 0); err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// at is the progress of a rank at a step.
type at int64

func (a at) Position() quorum.Position { return quorum.Position{Step: int64(a), QuorumID: 1} }
func (a at) BatchesCommitted() int64   { return int64(a) }
func (at) ParticipantRank() int        { return 0 }
func (at) NumParticipants() int        { return 1 }
func (at) ReplicaID() string           { return "a:1" }

// saver is a Checkpointer of the model, over a directory.
func (m *model) saver(t *testing.T, path string, told func(durable.Event)) *durable.Checkpointer {
	t.Helper()
	dir, err := localdir.New(localdir.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // it was read and written
	c, err := durable.New(durable.Config{Store: dir, Every: 1, OnEvent: told})
	if err == nil {
		err = c.Register("model", m.State, m.Load)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errLost = errors.New("the bus has lost it")

// A copy to the host that fails is no checkpoint: the one before stays the newest, and a run whose
// replicas then all die goes on from that. So it is with a Twin that is closed.
func TestFailedCopyIsNoCheckpoint(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	m := newModel(t)
	var failed []error
	c := m.saver(t, path, func(e durable.Event) {
		if f, ok := e.(durable.SaveFailed); ok {
			failed = append(failed, f.Err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	saved := func(step int64) error {
		m.set(t, float32(step))
		return errors.Join(c.AfterStep(t.Context(), at(step)), c.Flush(t.Context()))
	}
	restores := func(step int64) {
		t.Helper()
		fresh := newModel(t)
		found, err := fresh.saver(t, path, nil).Restore(t.Context())
		if err != nil || found.Position.Step != step || fresh.get(t) != float32(step) {
			t.Errorf("restored %v, %v, to %v, want step %d", found, err, fresh.get(t), step)
		}
	}
	if err := saved(1); err != nil {
		t.Fatal(err)
	}
	m.driver.failOnce(errLost)
	if err := saved(2); !errors.Is(err, safetensors.ErrAbsent) || !errors.Is(m.Err(), errLost) {
		t.Errorf("save of a copy that failed: %v; the twin says %v", err, m.Err())
	}
	restores(1)
	if err := saved(2); err != nil { // once more
		t.Error(err)
	}
	restores(2)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := saved(3); !errors.Is(err, safetensors.ErrAbsent) {
		t.Errorf("save of a twin that is closed: %v", err)
	}
	restores(2)
	if len(failed) != 2 {
		t.Errorf("told %v, want two failures", failed)
	}
}

// running is a transport, until the test ends.
func running(t *testing.T) *checkpoint.HTTP {
	t.Helper()
	tr, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- tr.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return tr
}

// A donor whose copy has failed refuses to give a state, so that a target takes another donor's, or
// tries again: it does not hear of a state without tensors, for which it would end.
func TestFailedCopyIsNotServed(t *testing.T) {
	t.Parallel()
	m, donor, target := newModel(t), running(t), running(t)
	m.set(t, 7)
	own := checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(make([]float32, 2))}}
	fetch := func() error {
		if err := donor.Serve("v", func() (checkpoint.State, error) { return m.State(), nil }); err != nil {
			return err
		}
		mirror, err := checkpoint.NewMirror(own, checkpoint.MirrorOptions{})
		if err != nil {
			return err
		}
		if _, err := target.Fetch(t.Context(), "v", []string{donor.Metadata()}, mirror); err != nil {
			return err
		}
		return mirror.Install("v")
	}
	m.driver.failOnce(errLost)
	err := fetch()
	if _, mismatch := errors.AsType[*safetensors.MismatchError](err); mismatch || !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch from a donor whose copy failed: %v, want ErrNoDonor", err)
	}
	if err := fetch(); err != nil || tensor.Slice[float32](own.Tensors["w"])[0] != 7 {
		t.Errorf("fetch: %v, %v, want 7", err, own.Tensors["w"])
	}
}
