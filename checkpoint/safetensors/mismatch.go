package safetensors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/tensor"
)

// TensorInfo says what a tensor is, without its bytes.
type TensorInfo struct {
	Name  string
	DType tensor.DType
	Shape []int
}

// String is like `w1 float32[64 128]`.
func (t TensorInfo) String() string { return t.Name + " " + t.kind() }

func (t TensorInfo) kind() string { return fmt.Sprintf("%v%v", t.DType, t.Shape) }

// SizeBytes is the size of its elements.
func (t TensorInfo) SizeBytes() int64 {
	n, _ := t.byteSize() // a layout holds none that is too large
	return n
}

// Equal compares everything, the name included.
func (t TensorInfo) Equal(o TensorInfo) bool {
	return t.Name == o.Name && t.DType == o.DType && slices.Equal(t.Shape, o.Shape)
}

// MismatchError is returned by Fetch and Decode when a state does not fit the
// tensors it is read into. It is final: no other donor and no other try will
// do better, because the programs differ.
type MismatchError struct {
	Want []TensorInfo // those of the reader that the state lacks or has otherwise, by name
	Got  []TensorInfo // those of the state that the reader lacks or has otherwise, by name
}

// mismatchShown bounds how many differences Error names.
const mismatchShown = 8

// Error names the first few differences.
func (e *MismatchError) Error() string {
	lines := e.differences()
	more := ""
	if n := len(lines) - mismatchShown; n > 0 {
		lines, more = lines[:mismatchShown], fmt.Sprintf("; and %d more", n)
	}
	return "safetensors: state does not fit: " + strings.Join(lines, "; ") + more
}

func (e *MismatchError) differences() []string {
	got := make(map[string]TensorInfo, len(e.Got))
	for _, t := range e.Got {
		got[t.Name] = t
	}
	var lines []string
	for _, w := range e.Want {
		kind := "none"
		if g, ok := got[w.Name]; ok {
			kind = g.kind()
		}
		delete(got, w.Name)
		lines = append(lines, fmt.Sprintf("%s: want %s, got %s", Clip(w.Name), w.kind(), kind))
	}
	for _, g := range e.Got {
		if _, ok := got[g.Name]; ok {
			lines = append(lines, fmt.Sprintf("%s: want none, got %s", Clip(g.Name), g.kind()))
		}
	}
	return lines
}

// match compares what a reader wants with what a state has, both by name.
func match(want, got []TensorInfo) error {
	e := &MismatchError{}
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0].Name < got[0].Name:
			e.Want, want = append(e.Want, want[0]), want[1:]
		case len(want) == 0 || got[0].Name < want[0].Name:
			e.Got, got = append(e.Got, got[0]), got[1:]
		default:
			if !want[0].Equal(got[0]) {
				e.Want, e.Got = append(e.Want, want[0]), append(e.Got, got[0])
			}
			want, got = want[1:], got[1:]
		}
	}
	if len(e.Want) == 0 && len(e.Got) == 0 {
		return nil
	}
	return e
}
