package manager

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// BenchmarkStep is a step with no forward pass and nothing to reduce: what the
// protocol costs in steady state, that is one exchange of ballots.
func BenchmarkStep(b *testing.B) {
	for _, backend := range []string{"memory", "tcp"} {
		for _, n := range []int{2, 4} {
			b.Run(fmt.Sprintf("backend=%s/replicas=%d", backend, n), func(b *testing.B) { benchmarkStep(b, backend, n) })
		}
	}
}

func benchmarkStep(b *testing.B, backend string, n int) {
	w := newKernelWorld(b)
	var all []*Manager
	var run sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range n {
		var be pg.Backend = w.net.Backend()
		if backend == "tcp" {
			be = tcp.New(tcp.Options{})
		}
		m, err := New(Config{ReplicaID: fmt.Sprint(i), Lighthouse: []string{w.lh.addr}, Backend: be,
			StepTimeout: 10 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, m)
		run.Go(func() { _ = m.Run(ctx) })
	}
	defer run.Wait()
	defer cancel()
	step := func(m *Manager) error {
		if err := m.StartQuorum(ctx); err != nil {
			return err
		}
		_, err := m.ShouldCommit(ctx)
		return err
	}
	each := func(steps int) {
		var wg sync.WaitGroup
		for _, m := range all {
			wg.Go(func() {
				for range steps {
					if err := step(m); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	each(3)
	b.ReportAllocs()
	b.ResetTimer()
	each(b.N)
}
