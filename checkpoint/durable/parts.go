package durable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// maxPartBytes bounds the name of a part.
const maxPartBytes = 1 << 10

// part is a part of the state.
type part struct {
	name string
	save func() checkpoint.State
	load func(checkpoint.State) error
	room int64
}

// Registrar is what parts of a state are registered at: a *manager.Manager, or a
// Checkpointer.
type Registrar interface {
	Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error
}

// Register names a part of the state, in the words of manager.Manager.Register. Call it
// before the first save or Load. save returns views of the live tensors; Load writes
// into them, and then load is told the Meta, with the tensors as they now are. load may
// be nil. A save without a state to give returns checkpoint.State.Absent: SaveFailed.
func (c *Checkpointer) Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	return c.RegisterWithRoom(name, save, load, 0)
}

// RegisterWithRoom is Register of a part that takes tensors which save does not return
// yet, room bytes at most, such as the state that an optimizer makes at its first step:
// manager.StateOptions has the words for it under Room.
func (c *Checkpointer) RegisterWithRoom(
	name string, save func() checkpoint.State, load func(checkpoint.State) error, room int64,
) error {
	var why string
	switch {
	case name == "" || strings.Contains(name, "/") || len(name) > maxPartBytes || !utf8.ValidString(name):
		why = fmt.Sprintf("want a name of 1 to %d bytes without slashes", maxPartBytes)
	case save == nil:
		why = "save is nil"
	case room < 0 || room > safetensors.MaxStateBytes:
		why = fmt.Sprintf("room = %d, want 0 to %d", room, int64(safetensors.MaxStateBytes))
	case room > 0 && load == nil:
		why = "load is nil, want what takes the tensors for which there is room"
	case c.part(name) != nil:
		why = "registered already"
	default:
		c.parts = append(c.parts, part{name: name, save: save, load: load, room: room})
		return nil
	}
	return fmt.Errorf("durable: register state %.80q: %s", name, why)
}

// RegisterAt registers the same parts at r too, without room: heals and checkpoints
// then move the same state. A part that needs manager.StateOptions is registered
// at the manager by itself.
func (c *Checkpointer) RegisterAt(r Registrar) error {
	for _, p := range c.parts {
		if err := r.Register(p.name, p.save, p.load); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpointer) part(name string) *part {
	if i := slices.IndexFunc(c.parts, func(p part) bool { return p.name == name }); i >= 0 {
		return &c.parts[i]
	}
	return nil
}

// partOf is the one that a tensor "part/name" belongs to; nil: none.
func (c *Checkpointer) partOf(key string) *part {
	name, _, _ := strings.Cut(key, "/")
	return c.part(name)
}

// errNoPart is what a save or a Load without a part is refused with.
var errNoPart = errors.New("no state is registered")

// live makes one state of all parts: views.
func (c *Checkpointer) live() (checkpoint.State, error) {
	all := checkpoint.State{Tensors: make(map[string]tensor.Tensor), Meta: make(map[string]string)}
	if len(c.parts) == 0 {
		return all, errNoPart
	}
	for _, p := range c.parts {
		s := p.save()
		for name, t := range s.Tensors {
			if t.IsNone() {
				return all, fmt.Errorf("state %q: tensor %q is none: %w", p.name, name, safetensors.ErrAbsent)
			}
			if m, _ := t.Memory(); m != nil || !t.Contiguous() {
				return all, fmt.Errorf("state %q: tensor %q is %v, want contiguous host memory", p.name, name, t)
			}
			all.Tensors[p.name+"/"+name] = t
		}
		for key, v := range s.Meta {
			all.Meta[p.name+"/"+key] = v
		}
	}
	return all, nil
}

// complete refuses a state without tensors that it had at the last copy or load: their owner
// has failed to give them, and no Load would take the checkpoint, which is whole. A part with
// room may lose some, as an optimizer that begins anew does, and not all.
func (c *Checkpointer) complete(live map[string]tensor.Tensor) error {
	some := make(map[*part]bool)
	for name := range live {
		some[c.partOf(name)] = true
	}
	for _, name := range c.had {
		p := c.partOf(name)
		if _, ok := live[name]; !ok && (p.room == 0 || !some[p]) {
			return fmt.Errorf("tensor %.80q is no longer there: %w", name, safetensors.ErrAbsent)
		}
	}
	return nil
}

// under is what belongs to one part, by its own names.
func under[T any](all map[string]T, part string) map[string]T {
	own := make(map[string]T)
	for key, v := range all {
		if name, ok := strings.CutPrefix(key, part+"/"); ok {
			own[name] = v
		}
	}
	return own
}

// infosOf says what the tensors are, by name.
func infosOf(tensors map[string]tensor.Tensor) []safetensors.TensorInfo {
	out := make([]safetensors.TensorInfo, 0, len(tensors))
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		out = append(out, safetensors.TensorInfo{Name: name, DType: t.DType(), Shape: slices.Clone(t.Shape())})
	}
	return out
}
