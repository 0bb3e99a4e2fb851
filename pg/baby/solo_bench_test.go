package baby

import (
	"github.com/skerry-ft/skerry/pg"
	"testing"
)

func BenchmarkSolo(b *testing.B) {
	_, g := alone(b, Options{})
	x := pg.New(pg.Float32DType, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.AllReduce(b.Context(), x, pg.Sum); err != nil {
			b.Fatal(err)
		}
	}
}
