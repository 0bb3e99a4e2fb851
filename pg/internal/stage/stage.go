// Package stage makes twins of host tensors in memory of a device, for ops of groups that
// have a backend for the device alone. It has no goroutines and no state.
//
//	n, some := stage.Bytes(op.In, op.Out)
//	twins, err := stage.New(mem, op.In, op.Out) // copies what the op reads
//	…                                           // the op runs over twins.In and twins.Out
//	err = twins.Back()                          // copies the results
//
// A tensor that is on a device already stands for itself; one that is on both sides of the
// op has one twin.
package stage

import (
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// align is where twins begin: at a multiple of every dtype's size, and of what devices
// copy at once.
const align = 256

// Twins are the tensors of an op, on a device.
type Twins struct {
	In, Out []tensor.Tensor

	mem  tensor.DeviceMemory
	out  []tensor.Tensor // the caller's
	next int             // bytes of mem that are taken
}

// Bytes is how much memory the twins of an op's tensors take; some is false if none is on
// the host, or if one is not contiguous, which the backend refuses.
func Bytes(in, out []tensor.Tensor) (total int, some bool) {
	for _, side := range [2][]tensor.Tensor{in, out} {
		for _, t := range side {
			switch {
			case !onHost(t):
			case t.IsNone() || t.Bytes() == nil && t.Len() > 0:
				return 0, false
			default:
				total += sized(t)
			}
		}
	}
	return total, total > 0
}

func onHost(t tensor.Tensor) bool { return t.Device().Type == tensor.DeviceCPU }

func sized(t tensor.Tensor) int { return max((t.NumBytes()+align-1)/align*align, align) }

// New makes the twins in mem, of Bytes or more, and copies those of in.
func New(mem tensor.DeviceMemory, in, out []tensor.Tensor) (*Twins, error) {
	s := &Twins{mem: mem, out: out}
	for _, t := range in {
		twin, err := s.twin(t)
		if err == nil && onHost(t) && t.Len() > 0 {
			_, offset := twin.Memory()
			err = mem.CopyFromHost(offset, t.Bytes())
		}
		if err != nil {
			return nil, fmt.Errorf("copy %v to %v: %w", t, mem.Device(), err)
		}
		s.In = append(s.In, twin)
	}
	for _, t := range out {
		i := sameIn(in, t)
		if i >= 0 {
			s.Out = append(s.Out, s.In[i])
			continue
		}
		twin, err := s.twin(t)
		if err != nil {
			return nil, fmt.Errorf("make room for %v on %v: %w", t, mem.Device(), err)
		}
		s.Out = append(s.Out, twin)
	}
	return s, nil
}

func sameIn(in []tensor.Tensor, t tensor.Tensor) int {
	for i := range in {
		if t.Len() > 0 && in[i].SameMemory(t) {
			return i
		}
	}
	return -1
}

func (s *Twins) twin(t tensor.Tensor) (tensor.Tensor, error) {
	if !onHost(t) {
		return t, nil
	}
	size := t.DType().Size()
	all, err := tensor.OnDevice(s.mem, t.DType(), s.mem.NumBytes()/size)
	if err != nil {
		return tensor.Tensor{}, err
	}
	from := s.next / size
	s.next += sized(t)
	return all.Flat(from, from+t.Len()).Reshape(t.Shape()...)
}

// Back copies the results to the caller's tensors.
func (s *Twins) Back() error {
	for i, t := range s.out {
		if !onHost(t) || t.Len() == 0 {
			continue
		}
		_, offset := s.Out[i].Memory()
		if err := s.mem.CopyToHost(t.Bytes(), offset); err != nil {
			return fmt.Errorf("copy %v from %v: %w", t, s.mem.Device(), err)
		}
	}
	return nil
}
