package baby

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Configure takes the spare; a dead spare is replaced; Close ends it.
func TestSpare(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := newBaby(t, Options{Spare: true})
	m := w.Join("solo", b)
	if err := b.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := b.sparePID()
	w.Configure(m)
	if pid, _ := b.Child(); pid != first || pid == 0 {
		t.Errorf("child is %d, want the spare %d", pid, first)
	}
	if err := b.Warm(t.Context()); err != nil { // waits for the refill
		t.Fatal(err)
	}
	dead := b.sparePID()
	if err := syscall.Kill(dead, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	gone := b.mu.spare.gone
	b.mu.Unlock()
	<-gone
	w.Configure(m)
	if pid, ok := b.Child(); !ok || pid == dead {
		t.Errorf("child is %d (%v), want one that is not the dead spare %d", pid, ok, dead)
	}
	if err := w.Groups[0].Barrier(t.Context()); err != nil {
		t.Errorf("barrier: %v", err)
	}
	last, spare := mustChild(t, b), b.sparePID()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{last, spare} {
		if pid != 0 && syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d outlives Close", pid)
		}
	}
}

func (b *Backend) sparePID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.spare == nil {
		return 0
	}
	return b.mu.spare.proc.PID()
}

func mustChild(t testing.TB, b *Backend) int {
	pid, ok := b.Child()
	if !ok {
		t.Fatal("no child")
	}
	return pid
}

func benchPair(b *testing.B, backend func() pg.Backend, n int, tensor func(m pg.Backend) pg.Tensor) {
	w := pgtest.NewWorld(b, pgtest.StartStore(b))
	w.Configure(w.Join("a", backend()), w.Join("b", backend()))
	x := []pg.Tensor{tensor(w.Members[0].Backend), tensor(w.Members[1].Backend)}
	b.SetBytes(int64(4 * n))
	b.ResetTimer()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for i := range b.N {
			if err := g.AllReduce(ctx, x[rank], pg.Sum); err != nil {
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
			}, n, func(pg.Backend) pg.Tensor { return pg.New(pg.Float32DType, n) })
		})
		baby := func() pg.Backend { return newBaby(b, Options{}) }
		b.Run(fmt.Sprintf("alloc/%dB", 4*n), func(b *testing.B) {
			benchPair(b, baby, n, func(m pg.Backend) pg.Tensor {
				x, err := m.(*Backend).Alloc(pg.Float32DType, n)
				if err != nil {
					b.Fatal(err)
				}
				return x
			})
		})
		b.Run(fmt.Sprintf("foreign/%dB", 4*n), func(b *testing.B) {
			benchPair(b, baby, n, func(pg.Backend) pg.Tensor { return pg.New(pg.Float32DType, n) })
		})
	}
}
