package tcp

import (
	"math/rand/v2"
	"testing"
)

// TestStreamPieces: both ends of a stream see the same pieces, which cover it,
// and no piece crosses a tensor or a chunk of the digest.
func TestStreamPieces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var view [][]byte
		for range 1 + r.IntN(4) {
			view = append(view, make([]byte, r.IntN(3)*r.IntN(400_000)))
		}
		total, world := size(view), 1+r.IntN(5)
		cut, at := cutFor(total/world), 0
		for rank := range world {
			part := partOf(total, rank, world)
			if part.lo != at || part.hi < part.lo {
				t.Fatalf("part %d of %d bytes is %+v, want it to begin at %d", rank, total, part, at)
			}
			at = part.hi
			s, pieces := newStream(view, part, cut), 0
			for ; !s.finished(); pieces++ {
				off, n := s.off, s.size()
				if p := s.take(); len(p) != n || n > 0 && off/MaxPayload != (off+n-1)/MaxPayload {
					t.Fatalf("piece of %d bytes at %d", n, off)
				}
			}
			if s.done != part.len() || pieces != s.pieces || pieces < 1 {
				t.Fatalf("took %d of %d bytes in %d of %d pieces", s.done, part.len(), pieces, s.pieces)
			}
		}
		if at != total {
			t.Fatalf("parts end at %d, want %d", at, total)
		}
	}
}
