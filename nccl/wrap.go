package nccl

import (
	"encoding/binary"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// Ranges is implemented by a Driver that knows where the allocation begins that
// an address lies in. Without it memory of Wrap goes to no other process.
type Ranges interface {
	Base(p Pointer) (Pointer, error)
}

// Wrap gives device memory that somebody else has allocated in this process, in
// the device's context: all of an allocation, or a part. It stays theirs: Close
// leaves it alone, and they free it only when no op uses it any more, and no
// other process has it open.
func (d *Device) Wrap(p Pointer, bytes int) (*Buffer, error) {
	if p == 0 || bytes < 1 {
		return nil, fmt.Errorf("nccl: wrap %d bytes at %#x, want 1 or more at an address", bytes, uintptr(p))
	}
	return &Buffer{dev: d, p: p, size: bytes, foreign: true}, nil
}

// A handle of CUDA names a whole allocation. Of memory that begins inside one,
// the offset follows it, in eight bytes, little end first.
const (
	wholeHandle = len(IPCHandle{})
	partHandle  = wholeHandle + 8
	maxOffset   = 1 << 48
)

// exportFrom names the allocation that p lies in, and where in it. The device is
// current.
func (d *Device) exportFrom(p Pointer) ([]byte, error) {
	ranges, ok := d.driver.(Ranges)
	if !ok {
		return nil, fmt.Errorf("%w: driver %T does not know where foreign memory begins", pg.ErrUnsupported, d.driver)
	}
	base, err := ranges.Base(p)
	if err != nil {
		return nil, err
	}
	h, err := d.driver.Export(base)
	if err != nil || base == p {
		return h[:], err
	}
	return binary.LittleEndian.AppendUint64(h[:], uint64(p-base)), nil
}

// parseHandle is the other end of exportFrom.
func parseHandle(handle []byte) (h IPCHandle, offset Pointer, err error) {
	switch len(handle) {
	case wholeHandle:
	case partHandle:
		n := binary.LittleEndian.Uint64(handle[wholeHandle:])
		if n > maxOffset {
			return h, 0, fmt.Errorf("nccl: device memory at offset %d of an allocation, want at most %d", n, uint64(maxOffset))
		}
		offset = Pointer(n)
	default:
		return h, 0, fmt.Errorf("nccl: handle of device memory has %d bytes, want %d or %d", len(handle), wholeHandle, partHandle)
	}
	copy(h[:], handle)
	return h, offset, nil
}

// Base implements Ranges.
func (c *CUDA) Base(p Pointer) (base Pointer, err error) {
	if c.f.addressRange == nil {
		return 0, fmt.Errorf("%w: %s lacks cuMemGetAddressRange_v2", pg.ErrUnsupported, c.obj.path)
	}
	var size uint64
	err = c.check("cuMemGetAddressRange_v2", c.f.addressRange(&base, &size, p))
	return base, err
}
