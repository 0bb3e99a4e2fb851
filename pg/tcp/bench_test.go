package tcp

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The envelope, for W goroutine ranks on two shared cores over loopback, which
// moves 4 to 6 GB/s in all:
//
//	large: every rank sends and receives 2·(W-1)/W·N bytes. W=2: 2N bytes cross
//	    the loopback in all, so N = 64 MiB takes 27 ms at 5 GB/s. Checksums of
//	    what is sent and received add 4N at 9 GB/s a core, folding N at 6, on
//	    two cores together 20 ms: 47 ms, 1.4 GB/s, if nothing overlaps with
//	    idle time. W=4: 6N bytes, 80 ms + 50 ms: 0.5 GB/s.
//	small: one hop. A write is 3 µs, a wake-up of the reader 8 µs, one of the
//	    caller 3 µs: 15 to 20 µs for W=2, and W-1 writes and reads per rank
//	    above that.

func benchSizes(b *testing.B, opt Options, kind pg.Kind, worlds []int, sizes []int) {
	for _, world := range worlds {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("bytes=%s/world=%d", sizeName(size), world), func(b *testing.B) {
				benchOne(b, opt, kind, world, size)
			})
		}
	}
}

func benchOne(b *testing.B, opt Options, kind pg.Kind, world, size int) {
	w := newWorld(b, world, opt)
	w.configure(1)
	groups := make([]*pg.Group, world)
	data := make([][]float32, world)
	outs := make([][]tensor.Tensor, world)
	for r := range groups {
		groups[r] = pg.NewGroup(w.backends[r])
		data[r] = make([]float32, size/4)
		outs[r] = fresh(world, size/4)
	}
	// One context without end: contexts with deadlines allocate.
	run := func(r int) error {
		ctx, t := b.Context(), tensor.Of(data[r])
		switch kind {
		case pg.KindAllReduce:
			return groups[r].AllReduce(ctx, t, tensor.Sum)
		case pg.KindBroadcast:
			return groups[r].Broadcast(ctx, t, 0)
		case pg.KindAllGather:
			return groups[r].AllGather(ctx, t, outs[r])
		default:
			return groups[r].Barrier(ctx)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			for range b.N {
				if err := run(r); err != nil {
					b.Errorf("rank %d: %v", r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	// Processor time, unlike time, does not depend on who else is at work here;
	// half of it is the least time on two cores.
	b.ReportMetric(float64(cpuTime()-before)/1e3/float64(b.N), "cpu-µs/op")
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

func BenchmarkAllReduce(b *testing.B) {
	benchSizes(b, Options{}, pg.KindAllReduce, []int{2, 4}, []int{4 << 10, 64 << 10, 1 << 20, 25 << 20, 64 << 20})
}

// BenchmarkAllReduceTCP is what the same takes between hosts, but for the wire.
func BenchmarkAllReduceTCP(b *testing.B) {
	opt := Options{Transport: TransportTCP}
	benchSizes(b, opt, pg.KindAllReduce, []int{2, 4}, []int{4 << 10, 1 << 20, 64 << 20})
}

func BenchmarkBroadcast(b *testing.B) {
	benchSizes(b, Options{}, pg.KindBroadcast, []int{4}, []int{4 << 10, 25 << 20})
}

func BenchmarkAllGather(b *testing.B) {
	benchSizes(b, Options{}, pg.KindAllGather, []int{4}, []int{4 << 10, 4 << 20})
}

func BenchmarkBarrier(b *testing.B) {
	benchSizes(b, Options{}, pg.KindBarrier, []int{2, 8}, []int{0})
}

// BenchmarkReconfigure moves a group to the next quorum: the time until the
// first all-reduce is done. "new" opens every edge, "kept" none.
func BenchmarkReconfigure(b *testing.B) {
	for _, world := range []int{2, 4, 8} {
		for _, kept := range []bool{false, true} {
			name := map[bool]string{false: "new", true: "kept"}[kept]
			b.Run(fmt.Sprintf("edges=%s/world=%d", name, world), func(b *testing.B) {
				w := newWorld(b, world, Options{})
				for q := int64(1); b.Loop(); q++ {
					if !kept {
						b.StopTimer()
						for _, x := range w.backends {
							x.dropEdges()
						}
						b.StartTimer()
					}
					w.configure(q)
					w.reduceOK(w.everybody(), 1000)
				}
			})
		}
	}
}

// dropEdges closes all sockets and waits until they are forgotten.
func (b *Backend) dropEdges() {
	kill(b)
	for b.Stats().Links > 0 {
		runtime.Gosched()
	}
}

// BenchmarkKill is from the moment that one rank's sockets break, as a killed
// process's do, until the pending op of every survivor has failed.
func BenchmarkKill(b *testing.B) {
	const world = 8
	w := newWorld(b, world, Options{})
	works := make([]*pg.Work, world-1)
	for q := int64(1); b.Loop(); q++ {
		b.StopTimer()
		w.configure(q)
		for r := range works {
			works[r] = w.backends[r].Submit(&pg.Op{Kind: pg.KindBarrier})
		}
		b.StartTimer()
		kill(w.backends[world-1])
		for _, work := range works {
			if wait(b, work) == nil {
				b.Fatal("barrier without a rank succeeded")
			}
		}
	}
}
