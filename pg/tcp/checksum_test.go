package tcp

import (
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
		if got, want := checksum(p), crc32.Checksum(p, castagnoli); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
	for range 300 {
		lo := r.IntN(len(b))
		p := b[lo : lo+r.IntN(len(b)-lo)]
		if got, want := checksum(p), crc32.Checksum(p, castagnoli); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", len(p), got, want)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	p := make([]byte, MaxPayload)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			checksum(p)
		}
	})
	b.Run("standard", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			crc32.Checksum(p, castagnoli)
		}
	})
}
