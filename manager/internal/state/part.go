package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// part is the one that a tensor's name begins with; nil: none.
func (s *Parts) part(key string) *part {
	name, _, _ := strings.Cut(key, "/")
	if i := slices.IndexFunc(s.parts, func(p part) bool { return p.name == name }); i >= 0 {
		return &s.parts[i]
	}
	return nil
}

// Captured are copies of the volatile parts, by name, as they were when a
// StartQuorum returned. They are not written to.
type Captured map[string]checkpoint.State

func (c Captured) clone() (Captured, error) {
	out := make(Captured)
	for name, part := range c {
		var err error
		if out[name], err = part.Clone(); err != nil {
			return nil, fmt.Errorf("state %q: %w", name, err)
		}
	}
	return out, nil
}

// Capture copies the volatile parts. It belongs to the trainer's goroutine.
func (s *Parts) Capture() (Captured, error) {
	c := make(Captured)
	for _, p := range s.parts {
		if p.Volatile {
			c[p.name] = s.call(p)
		}
	}
	return c.clone()
}

// makeRoom makes a tensor that only the donors have, if its part takes it. What a
// donor says about sizes is another process's word.
func (s *Parts) makeRoom(in *Incoming, t safetensors.TensorInfo) (tensor.Tensor, bool) {
	p := s.part(t.Name)
	if p == nil || p.Room == 0 {
		return tensor.Tensor{}, false
	}
	left := p.Room - t.SizeBytes()
	for name, size := range in.made {
		if name != t.Name && s.part(name) == p {
			left -= size
		}
	}
	if left < 0 {
		return tensor.Tensor{}, false
	}
	in.made[t.Name] = t.SizeBytes()
	return tensor.New(t.DType, t.Shape...), true
}

// writeBack copies what came for a volatile part into its tensors, and puts them in
// its place.
func (s *Parts) writeBack(p part, came checkpoint.State) error {
	live := s.call(p).Tensors
	for name, from := range came.Tensors {
		to, ok := live[name]
		switch {
		case ok && to.DType() == from.DType() && slices.Equal(to.Shape(), from.Shape()) && len(to.Bytes()) == len(from.Bytes()):
			copy(to.Bytes(), from.Bytes())
			came.Tensors[name] = to
		case p.Room == 0:
			return fmt.Errorf("tensor %q is %v, and was %v in StartQuorum: want the same in each call of save", name, to, from)
		}
	}
	return nil
}
