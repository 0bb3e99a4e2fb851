package checkpoint

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// sample is the manifest of a small state.
func sample(t testing.TB, chunkBytes int64) []byte {
	t.Helper()
	v, err := safetensors.ViewOf(State{
		Tensors: map[string]tensor.Tensor{"a": tensor.New(tensor.Float32, 3, 1000), "b": tensor.New(tensor.Int8, 7)},
		Meta:    map[string]string{"k": "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{Layout: v.Layout, chunkBytes: chunkBytes}
	head, err := m.Header()
	if err != nil {
		t.Fatal(err)
	}
	return m.encode(head)
}

func TestManifestEveryFlippedBitIsSeen(t *testing.T) {
	t.Parallel()
	good := sample(t, MinChunkBytes)
	m, err := readManifest(bytes.NewReader(good))
	if err != nil || m.chunks() != 3 || m.Size() != 12007 {
		t.Fatalf("manifest: %v, %+v", err, m)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := readManifest(bytes.NewReader(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d flipped: %v, want ErrCorrupt", i, err)
		}
		if _, err := readManifest(bytes.NewReader(good[:i])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v, want ErrCorrupt", i, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(sample(f, MinChunkBytes))
	f.Add(sample(f, MaxChunkBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readManifest(bytes.NewReader(b))
		if err != nil {
			return
		}
		if n := m.chunks(); n > 0 {
			if from, to := m.bounds(n - 1); from >= to || to != m.Size() {
				t.Fatalf("last chunk [%d,%d) of %d", from, to, m.Size())
			}
		}
	})
}

func FuzzMarks(f *testing.F) {
	f.Add(encodeMarks(nil), uint8(0))
	f.Add(encodeMarks([]mark{1, 1 << 63}), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		r := bytes.NewReader(b)
		marks, err := readMarks(r, int(n))
		if err != nil {
			return
		}
		if len(marks) != int(n) || r.Len() != len(b)-markBytes*int(n)-crcBytes {
			t.Fatalf("%d marks and %d bytes left, want %d marks of %d bytes", len(marks), r.Len(), n, len(b))
		}
		if !bytes.Equal(encodeMarks(marks), b[:len(b)-r.Len()]) {
			t.Fatal("the marks are written otherwise than they were read")
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("0123456789abcdef")
	f.Add("+123456789abcdef")
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := parseMark(s); err == nil && m.String() != strings.ToLower(s) {
			t.Fatalf("%q was read as %v", s, m)
		}
	})
}

// A mark is the XXH3 of 64 bits as its reference implementation, libxxhash 0.8, makes it;
// every byte counts, wherever the parts are cut.
func TestMarkIsOfTheBytes(t *testing.T) {
	t.Parallel()
	b := []byte("some bytes of a chunk")
	whole := markOf([][]byte{b})
	long := make([]byte, 100_000)
	for i := range long {
		long[i] = byte(i % 251)
	}
	for want, of := range map[mark][]byte{0x2fded46484ab3918: b, 0x2d06800538d394c2: nil, 0x42c23aeead96750d: long} {
		if got := markOf([][]byte{of}); got != want {
			t.Errorf("mark of %d bytes = %v, want %v", len(of), got, want)
		}
	}
	for i := range b {
		if got := markOf([][]byte{b[:i], b[i:]}); got != whole {
			t.Errorf("cut at %d: %v, want %v", i, got, whole)
		}
		c := bytes.Clone(b)
		c[i] ^= 1
		if got := markOf([][]byte{c}); got == whole {
			t.Errorf("byte %d changed: %v, was %v", i, got, whole)
		}
	}
}

// TestPiecesCoverEveryByte cuts a state at every boundary.
func TestPiecesCoverEveryByte(t *testing.T) {
	t.Parallel()
	v, err := safetensors.ViewOf(State{Tensors: map[string]tensor.Tensor{
		"a": tensor.Of([]uint16{1, 2, 3}), "b": tensor.Of([]byte{4, 5}), "c": tensor.Of([]byte{}), "d": tensor.Of([]byte{6}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Join(v.Bytes, nil)
	for from := range len(whole) + 1 {
		for to := from; to <= len(whole); to++ {
			got := bytes.Join(safetensors.Pieces(&v.Layout, v.Bytes, int64(from), int64(to)), nil)
			if !bytes.Equal(got, whole[from:to]) {
				t.Errorf("pieces [%d,%d) are %v, want %v", from, to, got, whole[from:to])
			}
		}
	}
}

func TestChunkRest(t *testing.T) {
	t.Parallel()
	c := &chunk{direct: true, memory: [][]byte{{1, 2}, {3}, {4, 5, 6}}}
	for got, want := range [][]byte{{1, 2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, {3, 4, 5, 6}, {4, 5, 6}, {5, 6}, {6}, {}} {
		c.got = int64(got)
		if rest := bytes.Join(c.rest(), nil); !bytes.Equal(rest, want) {
			t.Errorf("rest after %d bytes is %v, want %v", got, rest, want)
		}
	}
}

func TestRangesCoverEveryChunkOnce(t *testing.T) {
	t.Parallel()
	for n := range int64(200) {
		seen := make([]int, n)
		for i, s := range rangesOf(n) {
			if s.to-s.from > marksAtATime || i < probes && n >= 2*probes && s.to-s.from != 1 {
				t.Errorf("%d chunks: range %d is [%d,%d)", n, i, s.from, s.to)
			}
			for at := s.from; at < s.to; at++ {
				seen[at]++
			}
		}
		for at, times := range seen {
			if times != 1 {
				t.Errorf("%d chunks: chunk %d is in %d ranges", n, at, times)
			}
		}
	}
}
