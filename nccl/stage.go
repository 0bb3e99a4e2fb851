package nccl

import (
	"errors"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

var (
	_ pg.Stager = (*Backend)(nil)
	_ pg.Stager = (*Multi)(nil)
)

// Stage implements pg.Stager on the group's device. Memory of an op that the library has
// not given back is abandoned with it: freeing it would wait for the library.
func (b *Backend) Stage(bytes int) (tensor.DeviceMemory, func(error) error, error) {
	m, err := b.opt.Device.Alloc(bytes)
	if err != nil {
		return nil, nil, err
	}
	return m, func(opErr error) error {
		if errors.Is(opErr, ErrAbandoned) {
			return nil
		}
		return m.Close()
	}, nil
}

// Stage implements pg.Stager on the first device.
func (m *Multi) Stage(bytes int) (tensor.DeviceMemory, func(error) error, error) {
	return m.lanes[0].Stage(bytes)
}
