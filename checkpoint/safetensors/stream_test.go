package safetensors

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

func streamed() State {
	return State{
		Tensors: map[string]tensor.Tensor{
			"w": tensor.Of([]float32{1, 2, 3}), "on": tensor.Of([]bool{true, false}), "n": tensor.Of([]int64{7}), "none": tensor.New(tensor.Float32, 0),
		},
		Meta: map[string]string{"lr": "0.1"},
	}
}

func TestReaderIsEncode(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	if err := Encode(&want, streamed()); err != nil {
		t.Fatal(err)
	}
	r, size, err := NewReader(streamed())
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || int64(len(got)) != size || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes, said %d, %v; Encode writes %d, and they must be the same", len(got), size, err, want.Len())
	}
	if _, _, err := NewReader(State{Tensors: map[string]tensor.Tensor{"": tensor.New(tensor.Int8, 1)}}); err == nil {
		t.Error("a tensor without a name is encoded")
	}
}

func TestDecodeEach(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	if err := Encode(&file, streamed()); err != nil {
		t.Fatal(err)
	}
	var names []string
	got := make([]byte, 12)
	r := bytes.NewReader(append(file.Bytes(), "tail"...))
	meta, err := DecodeEach(r, func(i TensorInfo) ([]byte, error) {
		names = append(names, i.Name)
		if i.Name == "w" {
			return got, nil
		}
		return nil, nil
	})
	want := streamed()
	if err != nil || !maps.Equal(meta, want.Meta) || !bytes.Equal(got, want.Tensors["w"].Bytes()) || r.Len() != len("tail") {
		t.Errorf("meta %v, w %v, %v, %d bytes left", meta, got, err, r.Len())
	}
	if slices.Sort(names); !slices.Equal(names, []string{"n", "none", "on", "w"}) {
		t.Errorf("was told of %q", names)
	}
}

func TestDecodeEachRefuses(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	if err := Encode(&file, streamed()); err != nil {
		t.Fatal(err)
	}
	all := func(i TensorInfo) ([]byte, error) { return make([]byte, i.SizeBytes()), nil }
	drop := func(TensorInfo) ([]byte, error) { return nil, nil }
	for cut := range file.Len() {
		for _, take := range []func(TensorInfo) ([]byte, error){all, drop} {
			if _, err := DecodeEach(bytes.NewReader(file.Bytes()[:cut]), take); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut at %d: %v, want ErrCorrupt", cut, err)
			}
		}
	}
	bad := slices.Clone(file.Bytes())
	bad[len(bad)-1] = 2 // the bools come last
	if _, err := DecodeEach(bytes.NewReader(bad), all); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a bool of 2: %v, want ErrCorrupt", err)
	}
	stop := errors.New("stop")
	if _, err := DecodeEach(bytes.NewReader(file.Bytes()), func(TensorInfo) ([]byte, error) { return nil, stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want take's error", err)
	}
	if _, err := DecodeEach(bytes.NewReader(file.Bytes()), func(TensorInfo) ([]byte, error) { return make([]byte, 1), nil }); err == nil {
		t.Error("memory of the wrong size is accepted")
	}
}
