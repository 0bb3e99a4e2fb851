package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/tensor"
)

// State is what a replica group rank must have to go on: parameters, optimizer
// state, and small things such as step counters in Meta. Names are unique;
// tensors are views of the owner's memory.
type State struct {
	Tensors map[string]tensor.Tensor
	Meta    map[string]string
}

// ErrAbsent is returned for a state that is not there, as State.Absent says: a donor, a target and
// a checkpoint cannot go on without it, and a later try may find it.
var ErrAbsent = errors.New("safetensors: the owner has no state to give")

// Absent is what a save callback returns when it cannot give its state, because a copy from a
// device failed, say: the names of s, and no tensors. Everything that reads a state refuses it
// with ErrAbsent. An empty state instead would be taken for a whole one.
func (s State) Absent() State {
	none := State{Tensors: make(map[string]tensor.Tensor, len(s.Tensors))}
	for name := range s.Tensors {
		none.Tensors[name] = tensor.Tensor{}
	}
	if len(none.Tensors) == 0 {
		none.Tensors["absent"] = tensor.Tensor{}
	}
	return none
}

// checkName refuses names that the format cannot hold.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("tensor name is empty")
	case name == metadataKey:
		return fmt.Errorf("tensor name %q is reserved", name)
	case len(name) > maxNameBytes:
		return fmt.Errorf("tensor name of %d bytes, want at most %d", len(name), maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("tensor name %q is not UTF-8", name)
	}
	return nil
}

// View is a layout with the memory that its entries stand for.
type View struct {
	Layout
	Bytes [][]byte // by entry
}

// ViewOf lays a state out: wide dtypes first, so that every tensor is aligned,
// and by name within a width. Equal states give equal layouts on every replica.
func ViewOf(s State) (*View, error) {
	if len(s.Tensors) > maxTensors {
		return nil, fmt.Errorf("state has %d tensors, want at most %d", len(s.Tensors), maxTensors)
	}
	for k, v := range s.Meta {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("metadata %q = %q is not UTF-8", k, v)
		}
	}
	v := &View{Layout: Layout{Meta: s.Meta, Entries: make([]Entry, 0, len(s.Tensors))}}
	for name := range s.Tensors {
		e, err := describe(name, s)
		if err != nil {
			return nil, err
		}
		v.Entries = append(v.Entries, e)
	}
	slices.SortFunc(v.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), strings.Compare(a.Name, b.Name))
	})
	var at int64
	for i := range v.Entries {
		e := &v.Entries[i]
		b := s.Tensors[e.Name].Bytes()
		e.From, e.To = at, at+int64(len(b))
		if at = e.To; at > MaxStateBytes {
			return nil, fmt.Errorf("state of over %d bytes, want at most %d", at, int64(MaxStateBytes))
		}
		v.Bytes = append(v.Bytes, b)
	}
	return v, nil
}

// InfoOf says what a tensor is.
func InfoOf(name string, t tensor.Tensor) TensorInfo {
	return TensorInfo{Name: name, DType: t.DType(), Shape: slices.Clone(t.Shape())}
}

// Clone copies a state into memory of its own. Tensors that no transport could move
// are an error.
func (s State) Clone() (State, error) {
	if _, err := ViewOf(s); err != nil {
		return State{}, fmt.Errorf("copy state: %w", err)
	}
	out := State{Tensors: make(map[string]tensor.Tensor, len(s.Tensors)), Meta: maps.Clone(s.Meta)}
	for name, t := range s.Tensors {
		c := tensor.New(t.DType(), t.Shape()...)
		copy(c.Bytes(), t.Bytes())
		out.Tensors[name] = c
	}
	return out, nil
}

func describe(name string, s State) (Entry, error) {
	if err := checkName(name); err != nil {
		return Entry{}, err
	}
	t := s.Tensors[name]
	if t.IsNone() {
		return Entry{}, fmt.Errorf("tensor %q is none: %w", name, ErrAbsent)
	}
	if m, _ := t.Memory(); m != nil || !t.Contiguous() {
		return Entry{}, fmt.Errorf("tensor %q is %v, want contiguous host memory", name, t)
	}
	e := Entry{TensorInfo: InfoOf(name, t)}
	if dtypeNames[e.DType] == "" {
		return e, fmt.Errorf("tensor %q: dtype %v cannot be encoded", name, e.DType)
	}
	if len(e.Shape) > maxDims {
		return e, fmt.Errorf("tensor %q has %d dimensions, want at most %d", name, len(e.Shape), maxDims)
	}
	size, ok := e.byteSize()
	if got := len(t.Bytes()); !ok || int64(got) != size {
		return e, fmt.Errorf("tensor %q: %d bytes of memory for %s", name, got, e.kind())
	}
	return e, nil
}

// Arrange gives the memory of a reader's tensors in the order of another's
// layout, or a *MismatchError.
func (v *View) Arrange(l *Layout) ([][]byte, error) {
	if err := match(v.infos(), l.infos()); err != nil {
		return nil, err
	}
	at := make(map[string]int, len(v.Entries))
	for i, e := range v.Entries {
		at[e.Name] = i
	}
	out := make([][]byte, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = v.Bytes[at[e.Name]]
	}
	return out, nil
}

// checkBools refuses bytes in bool tensors that Go's bools cannot be.
func checkBools(l *Layout, memory [][]byte) error {
	for i, e := range l.Entries {
		if e.DType != tensor.Bool {
			continue
		}
		for _, b := range memory[i] {
			if b > 1 {
				return Corrupt("bool tensor %q holds %d", Clip(e.Name), b)
			}
		}
	}
	return nil
}

// Pieces are the parts of memory that the data section's bytes [from, to)
// are. The entries lie without holes, so the pieces add up to to-from bytes.
func Pieces(l *Layout, memory [][]byte, from, to int64) [][]byte {
	first := sort.Search(len(l.Entries), func(i int) bool { return l.Entries[i].To > from })
	var out [][]byte
	for i := first; i < len(l.Entries) && l.Entries[i].From < to; i++ {
		e := l.Entries[i]
		part := memory[i][max(from, e.From)-e.From : min(to, e.To)-e.From]
		if len(part) > 0 {
			out = append(out, part)
		}
	}
	return out
}
