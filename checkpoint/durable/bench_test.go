package durable_test

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// big is a state of tensors of 4 MiB.
func big(bytes int) func() checkpoint.State {
	s := checkpoint.State{Tensors: make(map[string]tensor.Tensor)}
	for i := range bytes / (4 << 20) {
		v := make([]float32, 1<<20)
		for j := range v {
			v[j] = float32(i + j)
		}
		s.Tensors[fmt.Sprintf("layer.%04d", i)] = tensor.Of(v)
	}
	return func() checkpoint.State { return s }
}

// A save reads the state once and writes it once: copy 2n bytes of memory traffic, hash n,
// write n. The copy is what the step pays; the first one also makes the staging memory.
// Not measured: a step that trains beside the write, whose cores the hash takes.
func BenchmarkSave(b *testing.B) {
	for _, mib := range []int{100, 1000} {
		state := big(mib << 20)
		b.Run(fmt.Sprintf("copy/MiB=%d", mib), func(b *testing.B) { benchSave(b, state, mib, false) })
		b.Run(fmt.Sprintf("write/MiB=%d", mib), func(b *testing.B) { benchSave(b, state, mib, true) })
	}
}

func benchSave(b *testing.B, state func() checkpoint.State, mib int, write bool) {
	r := newRank(b, replicaID("a", 1), durable.Config{Store: openDir(b, localdir.Config{Path: b.TempDir()}), Every: 1, Keep: 1, MaxFileBytes: 256 << 20})
	must(b, r.c.Register("big", state, nil))
	r.run()
	save := func(step int64) {
		r.p.at = quorum.Position{Step: step, QuorumID: 1}
		must(b, r.c.AfterStep(b.Context(), r.p))
	}
	step := int64(1)
	save(step) // makes the staging memory
	must(b, r.c.Flush(b.Context()))
	b.ReportAllocs()
	b.SetBytes(int64(mib) << 20)
	for b.Loop() {
		step++
		save(step)
		if !write {
			b.StopTimer()
		}
		must(b, r.c.Flush(b.Context()))
		b.StartTimer()
	}
}

func BenchmarkRestore(b *testing.B) {
	for _, mib := range []int{100} {
		b.Run(fmt.Sprintf("MiB=%d", mib), func(b *testing.B) {
			dir := openDir(b, localdir.Config{Path: b.TempDir()})
			r := newRank(b, replicaID("a", 1), durable.Config{Store: dir, Every: 1})
			must(b, r.c.Register("big", big(mib<<20), nil))
			must(b, r.run().saved(1))
			b.ReportAllocs()
			b.SetBytes(int64(mib) << 20)
			for b.Loop() {
				_, err := r.c.Restore(b.Context())
				must(b, err)
			}
		})
	}
}
