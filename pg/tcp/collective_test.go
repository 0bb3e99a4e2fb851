package tcp

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// pattern is a rank's input of n elements: small integers, whose sums are exact.
func pattern(rank, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32((i*7+rank*13)%101 - 50)
	}
	return s
}

func sumOf(world, n int) []float32 {
	s := make([]float32, n)
	for r := range world {
		for i, v := range pattern(r, n) {
			s[i] += v
		}
	}
	return s
}

func TestAllReduceSizes(t *testing.T) {
	t.Parallel()
	for _, world := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("world=%d", world), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, world, Options{})
			w.configure(1)
			for _, n := range []int{0, 1, 3, 1000, 8192, 8193, 65536, 100_003, 1 << 20} {
				data := make([][]float32, world)
				for r := range data {
					data[r] = pattern(r, n)
				}
				noError(t, w.all(w.everybody(), func(r int) *pg.Op {
					x := []pg.Tensor{pg.Of(data[r])}
					return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x, Reduce: pg.Sum}
				}))
				want := sumOf(world, n)
				for r := range data {
					for i := range want {
						if data[r][i] != want[i] {
							t.Fatalf("n %d rank %d: [%d] = %v, want %v", n, r, i, data[r][i], want[i])
						}
					}
				}
			}
		})
	}
}
