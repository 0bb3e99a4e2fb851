package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

func encode(t testing.TB, s safetensors.State) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Encode(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(7)
	file := encode(t, s)
	if again := encode(t, ckpttest.NewState(7)); !bytes.Equal(file, again) {
		t.Error("equal states have different files")
	}
	into := ckpttest.Blank(s)
	r := bytes.NewReader(append(file, "what follows"...))
	meta, err := safetensors.Decode(r, into)
	if err != nil {
		t.Fatal(err)
	}
	ckpttest.Equal(t, into, s)
	if diff := cmp.Diff(s.Meta, meta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if r.Len() != len("what follows") {
		t.Errorf("decode left %d bytes, want %d", r.Len(), len("what follows"))
	}
	infos, _, err := safetensors.Describe(bytes.NewReader(file))
	if err != nil || len(infos) != len(s.Tensors) {
		t.Errorf("describe: %d tensors, %v", len(infos), err)
	}
}

// TestFormat pins the bytes: other programs read them.
func TestFormat(t *testing.T) {
	t.Parallel()
	scalar, err := tensor.Of([]float64{1}).Reshape()
	if err != nil {
		t.Fatal(err)
	}
	got := encode(t, safetensors.State{
		Tensors: map[string]tensor.Tensor{"b": tensor.Of([]uint8{1, 2}), "a": tensor.Of([]uint8{3}), "w": scalar},
		Meta:    map[string]string{"step": "5"},
	})
	header := `{"__metadata__":{"step":"5"},` +
		`"w":{"dtype":"F64","shape":[],"data_offsets":[0,8]},` +
		`"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},` +
		`"b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}}`
	for (8+len(header))%16 != 0 {
		header += " "
	}
	want := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	want = append(want, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 3, 1, 2)
	if !bytes.Equal(got, want) {
		t.Errorf("file\n%q\nwant\n%q", got, want)
	}
}

// file is a header with its length, and data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestHeadersRefused(t *testing.T) {
	t.Parallel()
	one := func(fields string) string { return `{"t":{` + fields + `}}` }
	cases := []struct{ header, want string }{
		{``, "begin with {"},
		{` {}`, "begin with {"},
		{`[]`, "begin with {"},
		{`{`, "header"},
		{`{}x`, "after the header's end"},
		{`{}{}`, "after the header's end"},
		{"{\"\xff\":1}", "UTF-8"},
		{`{"t":1}`, "want {"},
		{one(``), "lacks"},
		{one(`"dtype":"U8","shape":[1]`), "lacks"},
		{one(`"dtype":"F7","shape":[1],"data_offsets":[0,1]`), `unknown dtype "F7"`},
		{one(`"dtype":7,"shape":[1],"data_offsets":[0,1]`), "want a string"},
		{one(`"dtype":"U8","shape":[-1],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":[1.0],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":[1e0],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":["1"],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":[[1]],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":[1],"data_offsets":[0]`), "1 data_offsets"},
		{one(`"dtype":"U8","shape":[1],"data_offsets":[0,1,2]`), "more than 2"},
		{one(`"dtype":"U8","shape":[1],"data_offsets":[1,0]`), "offsets [1,0]"},
		{one(`"dtype":"U8","shape":[2],"data_offsets":[0,1]`), "want 2 bytes"},
		{one(`"dtype":"U8","shape":[1],"data_offsets":[1,2]`), "hole"},
		{one(`"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]`), "shape appears twice"},
		{one(`"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1`), `unknown key "x"`},
		{one(`"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]`), "is over"},
		{one(`"dtype":"F64","shape":[9223372036854775807],"data_offsets":[0,9223372036854775800]`), "is over"},
		{one(`"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]`), "want an integer"},
		{one(`"dtype":"U8","shape":[` + strings.Repeat("1,", 32) + `1],"data_offsets":[0,1]`), "more than 32"},
		{`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, "appears twice"},
		{`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, "appears twice"},
		{`{"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "overlaps"},
		{`{"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "overlaps"},
		{`{"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, "hole"},
		{`{"__metadata__":{"a":1}}`, "want a string"},
		{`{"__metadata__":{"a":"1","a":"2"}}`, "appears twice"},
		{`{"__metadata__":{},"__metadata__":{}}`, "appears twice"},
		{`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "empty"},
	}
	for _, c := range cases {
		_, err := safetensors.Decode(bytes.NewReader(file(c.header, 64)), safetensors.State{})
		if !errors.Is(err, safetensors.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("header %.80s: %v, want ErrCorrupt with %q", c.header, err, c.want)
		}
	}
}

func TestBytesRefused(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(1)
	good := encode(t, s)
	for _, n := range []int{0, 7, 8, 100, len(good) - 1} {
		if _, err := safetensors.Decode(bytes.NewReader(good[:n]), ckpttest.Blank(s)); !errors.Is(err, safetensors.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v, want ErrCorrupt", n, len(good), err)
		}
	}
	huge := binary.LittleEndian.AppendUint64(nil, safetensors.MaxHeaderBytes+1)
	if _, err := safetensors.Decode(bytes.NewReader(huge), safetensors.State{}); !errors.Is(err, safetensors.ErrCorrupt) {
		t.Errorf("huge header: %v, want ErrCorrupt", err)
	}
	bools := safetensors.State{Tensors: map[string]tensor.Tensor{"b": tensor.Of(make([]bool, 4))}}
	bad := encode(t, bools)
	bad[len(bad)-1] = 2
	if _, err := safetensors.Decode(bytes.NewReader(bad), bools); !errors.Is(err, safetensors.ErrCorrupt) {
		t.Errorf("a bool of 2: %v, want ErrCorrupt", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	strided, err := tensor.Of(make([]float32, 4)).AsStrided([]int{2}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Of(make([]float32, 1))
	cases := []struct {
		state safetensors.State
		want  string
	}{
		{safetensors.State{Tensors: map[string]tensor.Tensor{"a": strided}}, "contiguous"},
		{safetensors.State{Tensors: map[string]tensor.Tensor{"a": {}}}, "is none"},
		{safetensors.State{Tensors: map[string]tensor.Tensor{"": one}}, "empty"},
		{safetensors.State{Tensors: map[string]tensor.Tensor{"__metadata__": one}}, "reserved"},
		{safetensors.State{Tensors: map[string]tensor.Tensor{"\xff": one}}, "UTF-8"},
		{safetensors.State{Tensors: map[string]tensor.Tensor{strings.Repeat("x", 5000): one}}, "4096"},
		{safetensors.State{Meta: map[string]string{"a": "\xff"}}, "UTF-8"},
	}
	for _, c := range cases {
		if err := safetensors.Encode(&bytes.Buffer{}, c.state); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("encode: %v, want an error with %q", err, c.want)
		}
	}
}

// An absent state has a tensor at least, and no reader takes it for a state.
func TestAbsentIsRefused(t *testing.T) {
	t.Parallel()
	whole := safetensors.State{
		Tensors: map[string]tensor.Tensor{"a": tensor.Of(make([]float32, 1)), "b": tensor.Of(make([]int8, 3))},
		Meta:    map[string]string{"k": "v"},
	}
	for _, s := range []safetensors.State{whole, {}} {
		none := s.Absent()
		if len(none.Tensors) < max(1, len(s.Tensors)) || len(none.Meta) > 0 {
			t.Errorf("absent of %v is %v", s, none)
		}
		_, _, err := safetensors.NewReader(none)
		_, cerr := none.Clone()
		for _, err := range []error{err, cerr} {
			if !errors.Is(err, safetensors.ErrAbsent) {
				t.Errorf("read of an absent state: %v, want ErrAbsent", err)
			}
		}
	}
	if _, err := safetensors.ViewOf(whole); err != nil {
		t.Errorf("the state itself: %v", err)
	}
}

func TestMismatchNamesDifferences(t *testing.T) {
	t.Parallel()
	got := safetensors.State{Tensors: map[string]tensor.Tensor{
		"same": tensor.New(tensor.Int8, 1), "w1": tensor.New(tensor.Float32, 64, 256),
		"b1": tensor.New(tensor.Float64, 64), "extra": tensor.New(tensor.Int8),
	}}
	want := safetensors.State{Tensors: map[string]tensor.Tensor{
		"same": tensor.New(tensor.Int8, 1), "w1": tensor.New(tensor.Float32, 64, 128),
		"b1": tensor.New(tensor.Float32, 64), "missing": tensor.New(tensor.Int8, 3),
	}}
	_, err := safetensors.Decode(bytes.NewReader(encode(t, got)), want)
	if _, ok := errors.AsType[*safetensors.MismatchError](err); !ok {
		t.Fatalf("decode: %v, want a MismatchError", err)
	}
	const text = "safetensors: state does not fit: b1: want float32[64], got float64[64]; " +
		"missing: want int8[3], got none; w1: want float32[64 128], got float32[64 256]; extra: want none, got int8[]"
	if err.Error() != text {
		t.Errorf("error\n%v\nwant\n%v", err, text)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, ckpttest.NewState(1))[:4096])
	f.Add(encode(f, safetensors.State{Tensors: map[string]tensor.Tensor{"b": tensor.Of([]bool{true})}}))
	f.Add(file(`{"__metadata__":{"a":"b"},"t":{"dtype":"C128","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		infos, meta, err := safetensors.Describe(bytes.NewReader(b))
		if err != nil {
			return
		}
		s, ok := allocate(infos)
		if !ok {
			return
		}
		if s.Meta, err = safetensors.Decode(bytes.NewReader(b), s); err != nil {
			return
		}
		// Whatever was read is written and read again as the same.
		if diff := cmp.Diff(meta, s.Meta); diff != "" {
			t.Fatal(diff)
		}
		again := ckpttest.Blank(s)
		if _, err := safetensors.Decode(bytes.NewReader(encode(t, s)), again); err != nil {
			t.Fatal(err)
		}
		ckpttest.Equal(t, again, s)
	})
}

// allocate makes the tensors that a header asks for, if they are small.
func allocate(infos []safetensors.TensorInfo) (safetensors.State, bool) {
	s := safetensors.State{Tensors: map[string]tensor.Tensor{}}
	for _, info := range infos {
		n := 1
		for _, d := range info.Shape {
			if n *= d; n > 1<<16 {
				return s, false
			}
		}
		s.Tensors[info.Name] = tensor.New(info.DType, info.Shape...)
	}
	return s, true
}
