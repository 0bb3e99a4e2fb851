package pgcarrier_test

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/tensor"
)

const benchBytes = 256 << 20

// BenchmarkFetch moves a state between two transports of one process into the target's
// tensors, by HTTP alone and by a group of pg/tcp. checkpoint.BenchmarkRawStream is the
// limit of the former.
func BenchmarkFetch(b *testing.B) {
	for _, by := range []string{"http", "group"} {
		b.Run(fmt.Sprintf("bytes=256MiB/by=%s", by), func(b *testing.B) {
			states := [2]checkpoint.State{filled(1), filled(2)}
			into := filled(0)
			var cfg checkpoint.HTTPConfig
			if by == "group" {
				cfg.Carrier = watch(b, open)
			}
			donor, target := ckpttest.Running(b, cfg), ckpttest.Running(b, cfg)
			b.SetBytes(benchBytes)
			b.ReportAllocs()
			for turn := 0; b.Loop(); turn++ {
				b.StopTimer()
				v := checkpoint.Version(fmt.Sprint(turn))
				if err := donor.Serve(v, ckpttest.Saves(states[turn%2])); err != nil {
					b.Fatal(err)
				}
				m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{Overwrite: true})
				if err != nil {
					b.Fatal(err)
				}
				m.SetDirect(true)
				b.StartTimer()
				if _, err := target.Fetch(b.Context(), v, []string{donor.Metadata()}, m); err != nil {
					b.Fatal(err)
				}
				if err := m.Install(v); err != nil {
					b.Fatal(err)
				}
			}
			if w, ok := cfg.Carrier.(*watched); ok {
				b.ReportMetric(float64(w.received.Load())/float64(b.N)/benchBytes, "carried")
			}
		})
	}
}

func filled(with byte) checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for i := range 16 {
		x := tensor.New(tensor.Float32, benchBytes/16/4)
		bytes := x.Bytes()
		for k := range bytes {
			bytes[k] = with
		}
		s.Tensors[fmt.Sprint("layer", i)] = x
	}
	return s
}
