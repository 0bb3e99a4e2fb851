package frame

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestChecksum: it is the standard library's, at every length around what the
// vector code works in and at any address.
func TestChecksum(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	b := make([]byte, 300_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for n := range 2100 {
		p := b[r.IntN(64):][:n]
		if got, want := Checksum(p), crc32.Checksum(p, castagnoli); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
	for range 300 {
		lo := r.IntN(len(b))
		p := b[lo : lo+r.IntN(len(b)-lo)]
		if got, want := Checksum(p), crc32.Checksum(p, castagnoli); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", len(p), got, want)
		}
	}
}

func TestJoinChecksums(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 3*MaxPayload)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	for _, n := range []int{0, 1, 3, 64, 1000, MaxPayload - 64, MaxPayload, 2*MaxPayload - 17} {
		for _, m := range []int{0, 1, 5, 4096, MaxPayload} {
			got := JoinChecksums(Checksum(p[:n]), Checksum(p[n:n+m]), m)
			if want := Checksum(p[:n+m]); got != want {
				t.Errorf("%d and %d bytes: %08x, want %08x", n, m, got, want)
			}
		}
	}
	for range 100 {
		sum, v := r.Uint32(), r.Uint32()
		var le [4]byte
		binary.LittleEndian.PutUint32(le[:], v)
		if got, want := ExtendChecksum(sum, v), crc32.Update(sum, castagnoli, le[:]); got != want {
			t.Errorf("extend %08x by %08x: %08x, want %08x", sum, v, got, want)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	p := make([]byte, MaxPayload)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			Checksum(p)
		}
	})
	b.Run("standard", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			crc32.Checksum(p, castagnoli)
		}
	})
}
