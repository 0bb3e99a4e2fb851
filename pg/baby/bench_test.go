package baby

import (
	"context"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// BenchmarkSolo is the way to the child and back alone: in a group of one there
// is nothing else.
func BenchmarkSolo(b *testing.B) {
	_, g := alone(b, Options{})
	x := tensor.New(tensor.Float32, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.AllReduce(b.Context(), x, tensor.Sum); err != nil {
			b.Fatal(err)
		}
	}
}

func benchPair(b *testing.B, backend func() pg.Backend, n int, newTensor func(m pg.Backend) tensor.Tensor) {
	w := pgtest.NewWorld(b, pgtest.StartStore(b))
	w.Configure(w.Join("a", backend()), w.Join("b", backend()))
	x := []tensor.Tensor{newTensor(w.Members[0].Backend), newTensor(w.Members[1].Backend)}
	b.SetBytes(int64(4 * n))
	b.ResetTimer()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for i := range b.N {
			if err := g.AllReduce(ctx, x[rank], tensor.Sum); err != nil {
				return fmt.Errorf("op %d: %w", i, err)
			}
		}
		return nil
	})
}

func BenchmarkAllReduce(b *testing.B) {
	for _, n := range []int{256, 1 << 18, 1 << 22} {
		b.Run(fmt.Sprintf("bare/%dB", 4*n), func(b *testing.B) {
			benchPair(b, func() pg.Backend {
				x, err := pg.Open(patient, pg.Options{})
				if err != nil {
					b.Fatal(err)
				}
				return x
			}, n, func(pg.Backend) tensor.Tensor { return tensor.New(tensor.Float32, n) })
		})
		baby := func() pg.Backend { return newBaby(b, Options{}) }
		b.Run(fmt.Sprintf("alloc/%dB", 4*n), func(b *testing.B) {
			benchPair(b, baby, n, func(m pg.Backend) tensor.Tensor {
				x, err := m.(*Backend).Alloc(tensor.Float32, n)
				if err != nil {
					b.Fatal(err)
				}
				return x
			})
		})
		b.Run(fmt.Sprintf("foreign/%dB", 4*n), func(b *testing.B) {
			benchPair(b, baby, n, func(pg.Backend) tensor.Tensor { return tensor.New(tensor.Float32, n) })
		})
	}
}
