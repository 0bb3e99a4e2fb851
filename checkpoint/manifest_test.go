package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// sample is the manifest of a small state.
func sample(t testing.TB, chunkBytes int64) []byte {
	t.Helper()
	v, err := viewOf(State{
		Tensors: map[string]pg.Tensor{"a": pg.New(pg.Float32DType, 3, 1000), "b": pg.New(pg.Int8DType, 7)},
		Meta:    map[string]string{"k": "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{layout: v.layout, chunkBytes: chunkBytes}
	if m.sums, err = copyIn(context.Background(), make([]byte, m.size()), v, chunkBytes); err != nil {
		t.Fatal(err)
	}
	head, err := m.appendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.encode(head)
}

func TestManifestEveryFlippedBitIsSeen(t *testing.T) {
	t.Parallel()
	good := sample(t, MinChunkBytes)
	m, err := readManifest(bytes.NewReader(good))
	if err != nil || len(m.sums) != 3 || m.size() != 12007 {
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
		if int64(len(m.sums)) != chunkCount(m.size(), m.chunkBytes) {
			t.Fatalf("%d sums for %d bytes in chunks of %d", len(m.sums), m.size(), m.chunkBytes)
		}
		if len(m.sums) > 0 {
			if from, to := m.bounds(len(m.sums) - 1); from >= to || to != m.size() {
				t.Fatalf("last chunk [%d,%d) of %d", from, to, m.size())
			}
		}
	})
}

// TestPiecesCoverEveryByte cuts a state at every boundary.
func TestPiecesCoverEveryByte(t *testing.T) {
	t.Parallel()
	v, err := viewOf(State{Tensors: map[string]pg.Tensor{
		"a": pg.Of([]uint16{1, 2, 3}), "b": pg.Of([]byte{4, 5}), "c": pg.Of([]byte{}), "d": pg.Of([]byte{6}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Join(v.bytes, nil)
	for from := range len(whole) + 1 {
		for to := from; to <= len(whole); to++ {
			got := bytes.Join(pieces(&v.layout, v.bytes, int64(from), int64(to)), nil)
			if !bytes.Equal(got, whole[from:to]) {
				t.Errorf("pieces [%d,%d) are %v, want %v", from, to, got, whole[from:to])
			}
		}
	}
}

func TestChunkRest(t *testing.T) {
	t.Parallel()
	c := &chunk{memory: [][]byte{{1, 2}, {3}, {4, 5, 6}}}
	for got, want := range [][]byte{{1, 2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, {3, 4, 5, 6}, {4, 5, 6}, {5, 6}, {6}, {}} {
		c.got = int64(got)
		if rest := bytes.Join(c.rest(), nil); !bytes.Equal(rest, want) {
			t.Errorf("rest after %d bytes is %v, want %v", got, rest, want)
		}
	}
}
