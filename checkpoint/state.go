package checkpoint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/tensor"
)

// checkName refuses names that the format cannot hold.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("tensor name is empty")
	case name == metadataKey:
		return fmt.Errorf("tensor name %q is reserved", name)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("tensor name of %d bytes, want at most %d", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("tensor name %q is not UTF-8", name)
	}
	return nil
}

// view is a layout with the memory that its entries stand for.
type view struct {
	layout
	bytes [][]byte // by entry
}

// viewOf lays a state out: wide dtypes first, so that every tensor is aligned,
// and by name within a width. Equal states give equal layouts on every replica.
func viewOf(s State) (*view, error) {
	if len(s.Tensors) > MaxTensors {
		return nil, fmt.Errorf("state has %d tensors, want at most %d", len(s.Tensors), MaxTensors)
	}
	for k, v := range s.Meta {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("metadata %q = %q is not UTF-8", k, v)
		}
	}
	v := &view{layout: layout{meta: s.Meta, entries: make([]entry, 0, len(s.Tensors))}}
	for name := range s.Tensors {
		e, err := describe(name, s)
		if err != nil {
			return nil, err
		}
		v.entries = append(v.entries, e)
	}
	slices.SortFunc(v.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), strings.Compare(a.Name, b.Name))
	})
	var at int64
	for i := range v.entries {
		e := &v.entries[i]
		b := s.Tensors[e.Name].Bytes()
		e.from, e.to = at, at+int64(len(b))
		if at = e.to; at > MaxStateBytes {
			return nil, fmt.Errorf("state of over %d bytes, want at most %d", at, int64(MaxStateBytes))
		}
		v.bytes = append(v.bytes, b)
	}
	return v, nil
}

// infoOf says what a tensor is.
func infoOf(name string, t tensor.Tensor) TensorInfo {
	return TensorInfo{Name: name, DType: t.DType(), Shape: slices.Clone(t.Shape())}
}

// Clone copies a state into memory of its own. Tensors that no transport could move
// are an error.
func (s State) Clone() (State, error) {
	if _, err := viewOf(s); err != nil {
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

func describe(name string, s State) (entry, error) {
	if err := checkName(name); err != nil {
		return entry{}, err
	}
	t := s.Tensors[name]
	if m, _ := t.Memory(); m != nil || !t.Contiguous() {
		return entry{}, fmt.Errorf("tensor %q is %v, want contiguous host memory", name, t)
	}
	e := entry{TensorInfo: infoOf(name, t)}
	if dtypeNames[e.DType] == "" {
		return e, fmt.Errorf("tensor %q: dtype %v cannot be encoded", name, e.DType)
	}
	if len(e.Shape) > MaxDims {
		return e, fmt.Errorf("tensor %q has %d dimensions, want at most %d", name, len(e.Shape), MaxDims)
	}
	size, ok := e.byteSize()
	if got := len(t.Bytes()); !ok || int64(got) != size {
		return e, fmt.Errorf("tensor %q: %d bytes of memory for %s", name, got, e.kind())
	}
	return e, nil
}

// arrange gives the memory of a reader's tensors in the order of another's
// layout, or a *MismatchError.
func (v *view) arrange(l *layout) ([][]byte, error) {
	if err := match(v.infos(), l.infos()); err != nil {
		return nil, err
	}
	at := make(map[string]int, len(v.entries))
	for i, e := range v.entries {
		at[e.Name] = i
	}
	out := make([][]byte, len(l.entries))
	for i, e := range l.entries {
		out[i] = v.bytes[at[e.Name]]
	}
	return out, nil
}

// checkBools refuses bytes in bool tensors that Go's bools cannot be.
func checkBools(l *layout, memory [][]byte) error {
	for i, e := range l.entries {
		if e.DType != tensor.Bool {
			continue
		}
		for _, b := range memory[i] {
			if b > 1 {
				return corrupt("bool tensor %q holds %d", clip(e.Name), b)
			}
		}
	}
	return nil
}

// pieces are the parts of memory that the data section's bytes [from, to)
// are. The entries lie without holes, so the pieces add up to to-from bytes.
func pieces(l *layout, memory [][]byte, from, to int64) [][]byte {
	first := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].to > from })
	var out [][]byte
	for i := first; i < len(l.entries) && l.entries[i].from < to; i++ {
		e := l.entries[i]
		part := memory[i][max(from, e.from)-e.from : min(to, e.to)-e.from]
		if len(part) > 0 {
			out = append(out, part)
		}
	}
	return out
}
