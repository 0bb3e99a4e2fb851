package pg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// onDevice is a backend for a device that is not there: its memory is the host's, but
// looks like a device's.
type onDevice struct {
	pg.Backend
	full  error // of Stage
	stuck bool  // copies back to the host do not work
	held  *atomic.Int32
}

// Stage implements pg.Stager.
func (d *onDevice) Stage(n int) (tensor.DeviceMemory, func(error) error, error) {
	if d.full != nil {
		return nil, nil, d.full
	}
	d.held.Add(1)
	return &deviceBytes{tensor.New(tensor.Complex128, (n+15)/16), d.stuck}, func(error) error {
		d.held.Add(-1)
		return nil
	}, nil
}

// Submit refuses tensors of the host, and gives those of the device to the backend below.
func (d *onDevice) Submit(op *pg.Op) *pg.Work {
	below := *op
	below.In, below.Out = nil, nil
	for side, ts := range [2][]tensor.Tensor{op.In, op.Out} {
		for _, x := range ts {
			mem, offset := x.Memory()
			if mem == nil {
				return pg.Finished(op, fmt.Errorf("%w: %v on the host", pg.ErrInvalidOp, x))
			}
			all := mem.(*deviceBytes).words.Bytes()
			host, err := tensor.FromBytes(x.DType(), all[offset:offset+x.NumBytes()], x.Shape()...)
			if err != nil {
				return pg.Finished(op, err)
			}
			if side == 0 {
				below.In = append(below.In, host)
			} else {
				below.Out = append(below.Out, host)
			}
		}
	}
	work := pg.NewWork(op)
	d.Backend.Submit(&below).Then(work.Complete)
	return work
}

type deviceBytes struct {
	words tensor.Tensor
	stuck bool
}

func (m *deviceBytes) Device() tensor.Device   { return tensor.CUDA(0) }
func (m *deviceBytes) NumBytes() int           { return m.words.NumBytes() }
func (m *deviceBytes) Address() uintptr        { return 0 }
func (m *deviceBytes) Export() ([]byte, error) { return nil, errors.ErrUnsupported }
func (m *deviceBytes) CopyFromHost(offset int, src []byte) error {
	copy(m.words.Bytes()[offset:], src)
	return nil
}

func (m *deviceBytes) CopyToHost(dst []byte, offset int) error {
	if m.stuck {
		return errors.New("the bus is stuck")
	}
	copy(dst, m.words.Bytes()[offset:])
	return nil
}

func deviceWorld(t *testing.T, n int) (*pgtest.World, []*onDevice, *atomic.Int32) {
	held := new(atomic.Int32)
	var devices []*onDevice
	w := pgtest.MemoryWorld(t, n, func(b pg.Backend) pg.Backend {
		d := &onDevice{Backend: b, held: held}
		devices = append(devices, d)
		return d
	})
	return w, devices, held
}

// A verb of several ops takes tensors of the host on a group that has a device alone:
// they are copied there and back, in place where the op is, and the memory is given back.
func TestComposedOnDevice(t *testing.T) {
	t.Parallel()
	w, _, held := deviceWorld(t, 3)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		one, all := []uint8{byte(rank), 7, byte(rank)}, make([]uint8, 9)
		news := []float64{float64(rank)}
		none := tensor.New(tensor.Int64, 0)
		err := g.Compose(ctx, func(c *pg.Composed) error {
			if !c.OnDevice() {
				return errors.New("not on a device")
			}
			return errors.Join(
				c.AllGatherIntoTensor(ctx, tensor.Of(one), tensor.Of(all)),
				c.Broadcast(ctx, tensor.Of(news), 2), c.Broadcast(ctx, none, 0))
		})
		if !bytes.Equal(all, []byte{0, 7, 0, 1, 7, 1, 2, 7, 2}) || news[0] != 2 {
			return fmt.Errorf("gathered %v, broadcast %v: %w", all, news, err)
		}
		if err := g.Broadcast(ctx, tensor.Of(news), 0); !errors.Is(err, pg.ErrInvalidOp) {
			return fmt.Errorf("a verb of one op: %w, want ErrInvalidOp", err)
		}
		return err
	})
	if n := held.Load(); n != 0 {
		t.Errorf("%d pieces of device memory are left", n)
	}
}

// A rank without memory on its device, and one that cannot copy its result, breaks the
// group: the others wait for nothing.
func TestComposedOnDeviceFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(d *onDevice){
		"no memory": func(d *onDevice) { d.full = errors.New("no memory is left") },
		"stuck":     func(d *onDevice) { d.stuck = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, devices, held := deviceWorld(t, 2)
			spoil(devices[1])
			err := w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
				err := g.Compose(ctx, func(c *pg.Composed) error {
					news := tensor.Of([]int32{int32(rank)})
					return errors.Join(c.Broadcast(ctx, news, 0), c.Broadcast(ctx, news, 0))
				})
				if err == nil || rank == 0 && !errors.Is(err, pg.ErrAborted) {
					return fmt.Errorf("got %w, want an error, ErrAborted at rank 0", err)
				}
				return nil
			})
			if err != nil || held.Load() != 0 {
				t.Errorf("%d pieces left: %v", held.Load(), err)
			}
		})
	}
}
