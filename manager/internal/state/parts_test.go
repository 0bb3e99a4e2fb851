package state

import (
	"errors"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

func TestStates(t *testing.T) {
	t.Parallel()
	var s Parts
	live := []float32{1, 2, 3}
	var told map[string]string
	err := s.Add("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(live)}, Meta: map[string]string{"lr": "0.1"}}
	}, func(st checkpoint.State) error {
		told = st.Meta
		return nil
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model", "", "a/b", "skerry"} {
		if err := s.Add(name, func() checkpoint.State { return checkpoint.State{} }, nil, Options{}); err == nil {
			t.Errorf("Add(%q) is accepted", name)
		}
	}
	own := Own{Batches: 42, Digest: quorum.Digest{Valid: true, Sum: 0xdeadbeef}}
	sent := s.Save(own, nil)
	sent.Tensors["model/w"] = tensor.Of(slices.Clone(live))
	live[0] = 9
	in, err := s.Incoming(nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Mirror.Take("v", sent); err != nil {
		t.Fatal(err)
	}
	if live[0] != 9 {
		t.Error("the live tensors changed before the state was installed")
	}
	for _, bad := range []map[string]string{{}, {ownBatches: "-1"}, {ownBatches: "1", ownDigest: "xyz"}} {
		if _, err := s.Install(in, "v", bad); !errors.Is(err, checkpoint.ErrCorrupt) || live[0] != 9 {
			t.Errorf("install(%v) = %v, want corrupt; live %v", bad, err, live)
		}
	}
	if _, err := s.Install(in, "w", sent.Meta); err == nil || live[0] != 9 {
		t.Errorf("a state was installed that did not come; live %v", live)
	}
	back, err := s.Install(in, "v", sent.Meta)
	if err != nil || back != own || live[0] != 1 || told["lr"] != "0.1" || len(told) != 1 {
		t.Errorf("install = %+v, %v; live %v, told %v", back, err, live, told)
	}
}

// Where a part is absent nothing is summed up, given or taken in: not even the other parts.
func TestAbsentPart(t *testing.T) {
	t.Parallel()
	var s Parts
	w, v := []float32{1, 2}, []float32{3}
	absent := false
	for name, live := range map[string][]float32{"model": w, "optim": v} {
		if err := s.Add(name, func() checkpoint.State {
			st := checkpoint.State{Tensors: map[string]tensor.Tensor{"x": tensor.Of(live)}}
			if absent && name == "model" {
				return st.Absent()
			}
			return st
		}, nil, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Sum(0, true)
	absent = true
	if got := s.Sum(0, true); got.Digest.Valid {
		t.Errorf("summed up %+v of what is left", got)
	}
	if _, err := safetensors.ViewOf(s.Save(Own{}, nil)); !errors.Is(err, safetensors.ErrAbsent) {
		t.Errorf("a donor's view: %v, want ErrAbsent", err)
	}
	if _, err := s.Incoming(nil, false, nil); !errors.Is(err, safetensors.ErrAbsent) {
		t.Errorf("a target: %v, want ErrAbsent", err)
	}
	absent = false
	if got := s.Sum(0, true); got != before || !got.Digest.Valid {
		t.Errorf("summed up %+v when it was there again, want %+v", got, before)
	}
}

// A bit that flips anywhere changes the digest of one slice, and of no other.
func TestSumFindsEachBit(t *testing.T) {
	t.Parallel()
	var s Parts
	big, small := make([]byte, 2*quorum.ParityBytes+5), make([]float32, 33)
	part := func(name string, o Options, tensors map[string]tensor.Tensor) {
		if err := s.Add(name, func() checkpoint.State { return checkpoint.State{Tensors: tensors} }, nil, o); err != nil {
			t.Fatal(err)
		}
	}
	own := make([]float32, 3)
	part("model", Options{}, map[string]tensor.Tensor{"big": tensor.Of(big), "small": tensor.Of(small)})
	part("inner", Options{Local: true}, map[string]tensor.Tensor{"own": tensor.Of(own)})
	const slices = 3
	sums := func() (out [slices]Sum) {
		for i := range out {
			out[i] = s.Sum(int64(i), false)
		}
		return out
	}
	before, whole := sums(), s.Sum(0, true)
	own[1] = 5
	if sums() != before {
		t.Error("a Local part is summed up")
	}
	for _, at := range []int{0, 7, quorum.ParityBytes - 1, quorum.ParityBytes, 2*quorum.ParityBytes + 4, -1} {
		if at >= 0 {
			big[at] ^= 4
		} else {
			small[32] = 1
		}
		if w := s.Sum(int64(at), true); w.Digest == whole.Digest || w.Slice.Count != 1 || w.First != "model/big" || w.Last != "model/small" {
			t.Errorf("byte %d: the whole is %+v, was %+v", at, w, whole)
		} else {
			whole = w
		}
		changed, after := 0, sums()
		for i := range after {
			if after[i] != before[i] {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("byte %d: %d of %d digests changed, want 1", at, changed, slices)
		}
		before = after
	}
	if s := before[2]; s.First != "model/big" || s.Last != "model/small" || s.Slice.Count != slices || !s.Digest.Valid {
		t.Errorf("the last slice is %+v", s)
	}
	var none Parts
	if s := none.Sum(8, false); s.Digest.Valid {
		t.Errorf("no state has digest %+v", s)
	}
}
