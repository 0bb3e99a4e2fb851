package debug

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// fingerprinted is what another rank reads of op.
func fingerprinted(t testing.TB, op *pg.Op, worldSize int) fingerprint {
	t.Helper()
	own := fingerprintOf(op, worldSize, 7)
	b := own.encode()
	if len(b) > pg.MaxBallotBytes {
		t.Fatalf("fingerprint of %d bytes, a ballot has at most %d", len(b), pg.MaxBallotBytes)
	}
	f, err := decodeFingerprint(b)
	if err != nil {
		t.Fatalf("decode %x: %v", b, err)
	}
	return f
}

// TestFingerprintRoundTrip: what fits comes back whole.
func TestFingerprintRoundTrip(t *testing.T) {
	x := []tensor.Tensor{tensor.New(tensor.Float16, 2, 3), tensor.New(tensor.Float16, 2, 3), tensor.New(tensor.Float16), tensor.New(tensor.Float16, 0)}
	op := &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x, Reduce: tensor.PreMulSum, Factor: -0.5}
	f := fingerprinted(t, op, 3)
	want := []shapeRun{{2, []int{2, 3}}, {1, nil}, {1, []int{0}}}
	if diff := cmp.Diff(want, f.In.runs, cmp.AllowUnexported(shapeRun{})); diff != "" {
		t.Errorf("shapes:\n%s", diff)
	}
	if f.In.count != 4 || f.Factor != -0.5 || f.Seq != 7 || f.DType != tensor.Float16 {
		t.Errorf("fingerprint %+v", f)
	}
	if got, want := f.String(), "all-reduce #7 of float16 2×[2 3][][0] by premul-sum times -0.5 on cpu"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}

// TestFingerprintLong: more shapes than fit are still compared, by checksum.
func TestFingerprintLong(t *testing.T) {
	var a, b []tensor.Tensor
	for i := range 3000 {
		a = append(a, tensor.New(tensor.Uint8, i))
		b = append(b, tensor.New(tensor.Uint8, i))
	}
	b[2999] = tensor.New(tensor.Uint8, 1)
	one := fingerprinted(t, &pg.Op{Kind: pg.KindAllReduce, In: a, Out: a}, 2)
	same := fingerprinted(t, &pg.Op{Kind: pg.KindAllReduce, In: a, Out: a}, 2)
	other := fingerprinted(t, &pg.Op{Kind: pg.KindAllReduce, In: b, Out: b}, 2)
	if !one.agrees(&same, 0, 1) || one.agrees(&other, 0, 1) {
		t.Error("the last of 3000 shapes does not count")
	}
	if n, known := one.In.elements(100); n != 100 || !known {
		t.Errorf("tensor 100 has %d elements, known %v", n, known)
	}
	if _, known := one.In.elements(2999); known {
		t.Error("tensor 2999 was told, though it cannot fit")
	}
}

// TestDigestJoin: two digests joined are the digest of both.
func TestDigestJoin(t *testing.T) {
	for _, chunks := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {3, 5}, {1000, 1}, {2, 300}} {
		first, second, both := pg.Digest{Valid: true}, pg.Digest{Valid: true}, pg.Digest{Valid: true}
		for i := range chunks[0] {
			first.AddChunk(uint32(i * 7919))
			both.AddChunk(uint32(i * 7919))
		}
		for i := range chunks[1] {
			second.AddChunk(uint32(i*104729 + 1))
			both.AddChunk(uint32(i*104729 + 1))
		}
		if got := join(first, second, chunks[1]); got != both {
			t.Errorf("%v chunks: %+v, want %+v", chunks, got, both)
		}
	}
	if got := join(pg.Digest{}, pg.Digest{Valid: true}, 0); got.Valid {
		t.Error("joined to what is not valid, it is")
	}
}

// FuzzFingerprint: whatever a peer sends is refused, or is small and can be
// compared and described.
func FuzzFingerprint(f *testing.F) {
	x := []tensor.Tensor{tensor.New(tensor.Float32, 2, 3)}
	for _, op := range []*pg.Op{
		{Kind: pg.KindAllReduce, In: x, Out: x, Reduce: tensor.Avg},
		{Kind: pg.KindScatter, Out: x, Root: 1},
		{Kind: pg.KindBarrier},
	} {
		own := fingerprintOf(op, 2, 1)
		f.Add(own.encode())
	}
	f.Add([]byte{fingerprintMagic, fingerprintVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeFingerprint(b)
		if err != nil {
			return
		}
		if n := len(got.In.runs) + len(got.Out.runs); n > len(b) {
			t.Errorf("%d bytes became %d runs", len(b), n)
		}
		if len(got.String()) > 100*(len(b)+10) {
			t.Errorf("%d bytes became %q", len(b), got.String())
		}
		again := got
		if !again.agrees(&got, 0, 0) && got.Kind != pg.KindAllGather && got.Kind != pg.KindAllToAll &&
			got.Kind != pg.KindGather && got.Kind != pg.KindScatter && got.Factor == got.Factor {
			t.Errorf("%v does not agree with itself", &got)
		}
		if e := again.encode(); !bytes.HasPrefix(b, e[:4]) || !slices.Equal(e[:2], b[:2]) {
			t.Errorf("%x became %x", b, e)
		}
	})
}
