package manager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// StateOptions are the rare wishes for one part of the state.
type StateOptions struct {
	// Local says that the part is this replica's own: heals move it, and nobody
	// compares it with that of the others. Say so of what replicas may hold
	// differently at one step: the optimizer of inner steps that are not reduced, a
	// random state, a position in the data. A part that differs by design and is not
	// Local is healed away, again and again, and its replica is refused for it. The
	// same in all replicas.
	Local bool

	// Volatile says that the trainer changes the part between StartQuorum and
	// ShouldCommit: statistics of a BatchNorm, a random generator, the position of a
	// loader. Save is then called in each StartQuorum, on the trainer's goroutine, and
	// what it returns is copied and given to others; a heal writes it back on that
	// goroutine too. So a reader gets it as it was before the forward pass. Each step
	// pays for the copy: keep large tensors that stand still in a part of their own.
	// It is compared with nothing, like a Local one.
	//
	// A loop that draws a batch before StartQuorum lets save return the loader's
	// position from before that. What a step changed that is discarded, the trainer
	// changes back, if it wants that.
	Volatile bool

	// Room is how many bytes of tensors the part takes that save does not return yet,
	// such as the state that an optimizer makes at its first step. Load finds them in
	// State.Tensors, beside save's; they are the part's from then on, and save returns
	// them. A tensor of save's that the donors do not have is left as it is, and is not
	// in State.Tensors. 0: the names must be the same, else StartQuorum or ShouldCommit
	// returns a *checkpoint.MismatchError.
	Room int64
}

// part is the one that a tensor's name begins with; nil: none.
func (s *states) part(key string) *statePart {
	name, _, _ := strings.Cut(key, "/")
	if i := slices.IndexFunc(s.parts, func(p statePart) bool { return p.name == name }); i >= 0 {
		return &s.parts[i]
	}
	return nil
}

// captured are copies of the volatile parts, by name, as they were when a
// StartQuorum returned. They are not written to.
type captured map[string]checkpoint.State

func (c captured) clone() (captured, error) {
	out := make(captured)
	for name, part := range c {
		var err error
		if out[name], err = part.Clone(); err != nil {
			return nil, fmt.Errorf("state %q: %w", name, err)
		}
	}
	return out, nil
}

// capture copies the volatile parts. It belongs to the trainer's goroutine.
func (s *states) capture() (captured, error) {
	c := make(captured)
	for _, p := range s.parts {
		if p.Volatile {
			c[p.name] = s.call(p)
		}
	}
	return c.clone()
}

// makeRoom makes a tensor that only the donors have, if its part takes it. What a
// donor says about sizes is another process's word.
func (s *states) makeRoom(in *incoming, t checkpoint.TensorInfo) (tensor.Tensor, bool) {
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
func (s *states) writeBack(p statePart, came checkpoint.State) error {
	live := s.call(p).Tensors
	for name, from := range came.Tensors {
		to, ok := live[name]
		switch {
		case ok && to.DType() == from.DType() && slices.Equal(to.Shape(), from.Shape()) && len(to.Bytes()) == len(from.Bytes()):
			copy(to.Bytes(), from.Bytes())
			came.Tensors[name] = to
		case ok || p.Room == 0:
			return fmt.Errorf("tensor %q is %v, and was %v in StartQuorum: want the same in each call of save", name, to, from)
		}
	}
	return nil
}
