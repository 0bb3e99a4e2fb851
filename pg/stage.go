package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg/internal/stage"
	"github.com/skerry-ft/skerry/tensor"
)

// Stager is implemented by backends that serve the tensors of a device, and that can
// lend memory there for a while: ops of a composed verb whose tensors are on the host
// go through it. The memory is the caller's until it calls release.
type Stager interface {
	// Stage allocates bytes, 1 or more, of device memory, not zeroed. Release frees it; it is
	// called once, with the error of the op that used it, after that op is done.
	Stage(bytes int) (m tensor.DeviceMemory, release func(opErr error) error, err error)
}

// stagerOf is what stages the host tensors of b: nothing if a backend takes them as they
// are, or if none can lend memory.
func stagerOf(b Backend) (Stager, bool) {
	below := innermost(b)
	d, ok := below.(*Devices)
	if !ok {
		s, ok := below.(Stager)
		return s, ok
	}
	for _, e := range d.list {
		if e.Device == tensor.DeviceCPU {
			return nil, false
		}
	}
	return stagerOf(d.backends[0])
}

// OnDevice tells whether the group has a backend for a device and none for the host:
// host tensors of the verb's ops are copied to the device and back, and messages have no
// tags.
func (c *Composed) OnDevice() bool {
	_, ok := stagerOf(c.g.backend)
	return ok
}

// staged runs op, of which the group's device takes no tensor as it is; ok is false if it
// takes all, or must refuse them. What goes wrong beside the op breaks the group: the
// peers would wait for an op that will never be, or go on with results that are not here.
func (c *Composed) staged(ctx context.Context, op *Op) (ok bool, err error) {
	s, onDevice := stagerOf(c.g.backend)
	if !onDevice || op.Kind == KindBatch {
		return false, nil
	}
	total, some := stage.Bytes(op.In, op.Out)
	if !some {
		return false, nil
	}
	mem, release, err := s.Stage(total)
	if err != nil {
		err = fmt.Errorf("stage %d bytes for %v: %w", total, op.Kind, err)
		c.g.Abort(err)
		return true, err
	}
	below := *op
	twins, err := stage.New(mem, op.In, op.Out)
	var opErr error
	if err == nil {
		below.In, below.Out = twins.In, twins.Out
		if opErr = c.Wait(ctx, c.Start(&below)); opErr == nil {
			err = twins.Back()
		}
		op.Seq, op.Epoch, op.Round, op.Source = below.Seq, below.Epoch, below.Round, below.Source
	}
	if err = errors.Join(err, release(opErr)); err != nil {
		c.g.Abort(err)
	}
	return true, errors.Join(opErr, err)
}
