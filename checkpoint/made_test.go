package checkpoint_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// tensors makes a state of float32 tensors.
func tensors(all map[string][]float32) checkpoint.State {
	s := checkpoint.State{Tensors: make(map[string]tensor.Tensor)}
	for name, values := range all {
		s.Tensors[name] = tensor.Of(values)
	}
	return s
}

// A mirror takes tensors that its owner does not have, if the owner makes room, and
// leaves those that the donors do not have, if the owner can do without.
func TestMirrorTakesWhatIsNew(t *testing.T) {
	t.Parallel()
	room := int64(12)
	own := tensors(map[string][]float32{"w": {0}, "opt/old": {7}})
	m, err := checkpoint.NewMirror(own, checkpoint.MirrorOptions{
		Make: func(info safetensors.TensorInfo) (tensor.Tensor, bool) {
			if room -= info.SizeBytes(); room < 0 {
				return tensor.Tensor{}, false
			}
			return tensor.New(info.DType, info.Shape...), true
		},
		Optional: func(name string) bool { return name == "opt/old" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Tensors()); n != 0 {
		t.Errorf("%d tensors before anything came", n)
	}
	for range 2 { // what was made once is not made again
		if err := m.Take("v", tensors(map[string][]float32{"w": {1}, "opt/new": {2, 3, 4}})); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Install("v"); err != nil {
		t.Fatal(err)
	}
	got := m.Tensors()
	fresh, ok := got["opt/new"]
	if !ok || len(got) != 2 || !slices.Equal(fresh.Bytes(), tensor.Of([]float32{2, 3, 4}).Bytes()) {
		t.Errorf("came: %v, want w and opt/new = [2 3 4]", got)
	}
	if !got["w"].SameMemory(own.Tensors["w"]) || !slices.Equal(own.Tensors["opt/old"].Bytes(), tensor.Of([]float32{7}).Bytes()) {
		t.Error("w must be the owner's, and opt/old stay as it is")
	}
	for name, state := range map[string]map[string][]float32{
		"over the room":            {"w": {1}, "opt/new": {1, 2, 3}, "opt/more": {5}},
		"w is missing":             {"opt/new": {1, 2, 3}},
		"opt/old in another shape": {"w": {1}, "opt/old": {1, 2}},
	} {
		err := m.Take("v", tensors(state))
		if _, ok := errors.AsType[*safetensors.MismatchError](err); !ok {
			t.Errorf("%s: %v, want a mismatch", name, err)
		}
	}
}

// A copy shares nothing with the state that it was made of.
func TestCloneIsApart(t *testing.T) {
	t.Parallel()
	values := []float32{1, 2}
	s := tensors(map[string][]float32{"w": values})
	s.Meta = map[string]string{"at": "1"}
	c, err := s.Clone()
	if err != nil {
		t.Fatal(err)
	}
	values[0], s.Meta["at"] = 9, "2"
	if !slices.Equal(c.Tensors["w"].Bytes(), tensor.Of([]float32{1, 2}).Bytes()) || c.Meta["at"] != "1" {
		t.Errorf("the copy is %v, %v after the state changed", c.Tensors["w"], c.Meta)
	}
	if _, err := tensors(map[string][]float32{"": {1}}).Clone(); err == nil {
		t.Error("a tensor without a name is accepted")
	}
}
