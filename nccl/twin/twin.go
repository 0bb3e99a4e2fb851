// Package twin gives a state that lies on a GPU to what reads and writes host memory:
// heals, parity and checkpoints. Beside the tensors it keeps twins of them in page-locked
// host memory, between which and the GPU copies run at the bus's speed.
//
//	t, err := twin.New(dev, map[string]tensor.Tensor{"weights": w, "momentum": v}, twin.Options{})
//	err = m.Register("model", t.State, t.Load) // a manager.Manager; before Run
//	…
//	err = t.Close() // once the manager is closed
//
// # Cost
//
// As much host memory as there is state, and, each time that the state is asked for, a copy
// of all of it to the host: where a donor serves in this step, a checkpoint is written, or
// parity compares. For parity of a large state choose manager.Config.ParityEvery by that.
package twin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/tensor"
)

// Options of a Twin; the zero value is good.
type Options struct {
	// Stream gives the stream on which the tensors are written: State waits for what is
	// on it, and Load's copies are through before it returns. nil: the default stream.
	Stream func() nccl.Stream
	// Meta is the rest of the part, and Loaded is told of what came, once the tensors are
	// on the device; nil: there is none.
	Meta   func() map[string]string
	Loaded func(meta map[string]string) error
}

// limit is how long copies of one State or Load may take: after that the device is lost.
const limit = time.Minute

// align is what the twins' addresses are a multiple of, as those of device memory are.
const align = 256

// Twin is one part of a state. Its methods may be called from any goroutine.
type Twin struct {
	dev    *nccl.Device
	opt    Options
	device map[string]tensor.Tensor
	names  []string // in order
	pinned []byte

	mu struct {
		sync.Mutex

		host   map[string]tensor.Tensor // nil: closed
		stream nccl.Stream
		err    error
	}
}

// errClosed is what a Twin that is closed says.
var errClosed = errors.New("twin: closed")

// New makes twins of contiguous tensors on dev, and page-locks as much host memory.
func New(dev *nccl.Device, tensors map[string]tensor.Tensor, o Options) (*Twin, error) {
	if o.Stream == nil {
		o.Stream = func() nccl.Stream { return 0 }
	}
	t := &Twin{dev: dev, opt: o, device: maps.Clone(tensors), names: slices.Sorted(maps.Keys(tensors))}
	total := 0
	for _, name := range t.names {
		x := tensors[name]
		if want := tensor.CUDA(dev.Index()); x.IsNone() || x.Device() != want || !x.Contiguous() {
			return nil, fmt.Errorf("twin: tensor %q is %v, want a contiguous one on %v", name, x, want)
		}
		total += padded(x.NumBytes())
	}
	if err := t.allocate(max(total, align)); err != nil {
		return nil, err
	}
	t.mu.host = make(map[string]tensor.Tensor, len(t.names))
	rest := t.pinned
	for _, name := range t.names {
		x := tensors[name]
		host, err := tensor.FromBytes(x.DType(), rest[:x.NumBytes():x.NumBytes()], x.Shape()...)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.mu.host[name], rest = host, rest[padded(x.NumBytes()):]
	}
	return t, nil
}

func padded(bytes int) int { return (bytes + align - 1) / align * align }

// allocate makes the memory and the stream.
func (t *Twin) allocate(total int) error {
	d := t.dev.Driver()
	return t.dev.Do(func() (err error) {
		if t.pinned, err = d.AllocHost(int64(total)); err != nil {
			return fmt.Errorf("twin: %w", err)
		}
		if t.mu.stream, err = d.NewStream(false); err != nil {
			return errors.Join(fmt.Errorf("twin: %w", err), d.FreeHost(t.pinned))
		}
		return nil
	})
}

// State copies the tensors to the host, once Options.Stream has written them, and gives
// the copies. If that fails the state is absent, see checkpoint.State: no heal, comparison or
// checkpoint takes it for the tensors', and Err says why.
func (t *Twin) State() checkpoint.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.copyLocked(func(d nccl.Driver, host []byte, at nccl.Pointer) error {
		return d.CopyOut(host, at, t.mu.stream)
	})
	if err != nil {
		t.mu.err = errors.Join(t.mu.err, fmt.Errorf("twin: copy to the host: %w", err))
		return checkpoint.State{Tensors: t.device}.Absent()
	}
	s := checkpoint.State{Tensors: maps.Clone(t.mu.host)}
	if t.opt.Meta != nil {
		s.Meta = t.opt.Meta()
	}
	return s
}

// Load copies tensors of the host to the device, most often those that State gave, into
// which a heal has written; it returns once they are there.
func (t *Twin) Load(s checkpoint.State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range t.names {
		x, host := s.Tensors[name], t.mu.host[name]
		switch {
		case x.DType() != host.DType() || !slices.Equal(x.Shape(), host.Shape()) || x.Device() != tensor.CPU() || !x.Contiguous():
			return fmt.Errorf("twin: load %q: got %v, want %v", name, x, host)
		case !x.SameMemory(host):
			copy(host.Bytes(), x.Bytes())
		}
	}
	err := t.copyLocked(func(d nccl.Driver, host []byte, at nccl.Pointer) error {
		return d.CopyIn(at, host, t.mu.stream)
	})
	if err != nil {
		t.mu.err = errors.Join(t.mu.err, fmt.Errorf("twin: copy to the device: %w", err))
		return t.mu.err
	}
	if t.opt.Loaded != nil {
		return t.opt.Loaded(s.Meta)
	}
	return nil
}

// copyLocked queues a copy of each tensor behind the caller's stream, and waits for all.
func (t *Twin) copyLocked(queue func(d nccl.Driver, host []byte, at nccl.Pointer) error) error {
	if t.mu.host == nil {
		return errClosed
	}
	d := t.dev.Driver()
	return t.dev.Do(func() error {
		written, err := d.Record(t.opt.Stream())
		if err != nil {
			return err
		}
		err = d.WaitEvent(t.mu.stream, written)
		for _, name := range t.names {
			if err != nil {
				break
			}
			if b := t.mu.host[name].Bytes(); len(b) > 0 {
				mem, offset := t.device[name].Memory()
				err = queue(d, b, nccl.Pointer(mem.Address()+uintptr(offset)))
			}
		}
		done, recordErr := d.Record(t.mu.stream)
		if recordErr != nil {
			return errors.Join(err, recordErr, d.DestroyEvent(written))
		}
		return errors.Join(err, d.Synchronize(done, limit), d.DestroyEvent(done), d.DestroyEvent(written))
	})
}

// Err is what has gone wrong so far: a device that is lost, most of all.
func (t *Twin) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.err
}

// Close frees the host memory; nobody may read what State gave any more. The tensors stay.
func (t *Twin) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pinned == nil {
		return nil
	}
	d, pinned := t.dev.Driver(), t.pinned
	t.mu.host, t.pinned = nil, nil
	return t.dev.Do(func() error {
		return errors.Join(d.DestroyStream(t.mu.stream), d.FreeHost(pinned))
	})
}
