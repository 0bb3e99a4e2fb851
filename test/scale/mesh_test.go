package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// ballotBytes is how long a ballot is on the wire, without what carries it.
const ballotBytes = 64

// limit bounds one thing that all ranks do together.
const limit = 5 * time.Minute

// mesh is n ranks of one process group in this process, over TCP on loopback.
type mesh struct {
	b      testing.TB
	n      int
	store  string
	groups []*pg.Group
	quorum int64
}

func newMesh(b testing.TB, n int, transport tcp.Transport) *mesh {
	b.Helper()
	m := &mesh{b: b, n: n, store: pgtest.StartStore(b)}
	b.Cleanup(func() {
		m.each(func(_ context.Context, _ int, g *pg.Group) error { return g.Backend().Close() })
	})
	for range n {
		m.groups = append(m.groups, pg.NewGroup(tcp.New(tcp.Options{
			Transport: transport, BeatTimeout: time.Minute, ReachTimeout: time.Minute, DialTimeout: time.Minute,
		})))
	}
	return m
}

// each has all ranks do one thing at once.
func (m *mesh) each(do func(ctx context.Context, rank int, g *pg.Group) error) {
	m.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	errs := make([]error, m.n)
	var wg sync.WaitGroup
	for r, g := range m.groups {
		wg.Go(func() { errs[r] = do(ctx, r, g) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		m.b.Fatal(err)
	}
}

// configure makes a new epoch of the same members.
func (m *mesh) configure() {
	m.b.Helper()
	m.quorum++
	ids := make([]string, m.n)
	for r := range ids {
		ids[r] = fmt.Sprintf("replica%05d:00000000-0000-4000-8000-000000000000", r)
	}
	m.each(func(ctx context.Context, rank int, g *pg.Group) error {
		return g.Configure(ctx, pg.Config{
			StoreAddress: fmt.Sprintf("%s/skerry/scale/default/%d/0", m.store, m.quorum),
			Rank:         rank, Cluster: "scale", QuorumID: m.quorum, GroupWorldSize: 1, ReplicaIDs: ids,
			Token: []byte("a token of sixteen"), Timeout: limit,
		})
	})
}

// edges is how many edges the ranks have, each counted once.
func (m *mesh) edges() float64 { return float64(m.n * (m.n - 1) / 2) }

// messages is how many go from each rank to each other.
func (m *mesh) messages() float64 { return 2 * m.edges() }

// repeated does one thing b.N times at each rank, and gives the processor's time for one.
func (m *mesh) repeated(b *testing.B, do func(ctx context.Context, g *pg.Group) error) time.Duration {
	b.Helper()
	b.ResetTimer()
	before := processor(b)
	m.each(func(ctx context.Context, _ int, g *pg.Group) error {
		for range b.N {
			if err := do(ctx, g); err != nil {
				return err
			}
		}
		return nil
	})
	used := processor(b) - before
	b.StopTimer()
	return used / time.Duration(b.N)
}

// processor is the time that this process has used, in all its threads.
func processor(b testing.TB) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// taken is what this process holds: descriptors, and bytes of Go's heap and stacks.
func taken(b testing.TB) (files, bytes float64) {
	b.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(len(all)), float64(s.HeapAlloc + s.StackInuse)
}

// worlds are the sizes that are measured. Sixty-four ranks in one process did not meet on two
// processors at a load of 25 to 60.
var worlds = []int{8, 16, 32}

func overTCP(b *testing.B, run func(b *testing.B, m *mesh)) {
	for _, n := range worlds {
		b.Run(fmt.Sprintf("ranks=%d", n), func(b *testing.B) { run(b, newMesh(b, n, tcp.TransportTCP)) })
	}
}

// BenchmarkEdge: what a new edge takes, at both ends together, the store's part included; what
// it keeps; and what it takes to keep it for another epoch.
func BenchmarkEdge(b *testing.B) {
	for _, transport := range []tcp.Transport{tcp.TransportTCP, tcp.TransportShared} {
		for _, n := range worlds {
			b.Run(fmt.Sprintf("%v/ranks=%d", transport, n), func(b *testing.B) {
				for b.Loop() {
					m := newMesh(b, n, transport)
					files, bytes := taken(b)
					at, began := processor(b), time.Now()
					m.configure()
					b.ReportMetric(float64(processor(b)-at)/m.edges()/1e3, "cpu-µs/new")
					b.ReportMetric(float64(time.Since(began))/1e6, "ms/configure")
					moreFiles, moreBytes := taken(b)
					b.ReportMetric((moreFiles-files-float64(n))/m.messages(), "files/end")
					b.ReportMetric((moreBytes-bytes)/m.messages(), "B/end")
					at = processor(b)
					m.configure()
					b.ReportMetric(float64(processor(b)-at)/m.edges()/1e3, "cpu-µs/kept")
				}
			})
		}
	}
}

// BenchmarkBallot: what a message costs the processors, at both ends together, when each rank
// sends its ballot to each other.
func BenchmarkBallot(b *testing.B) {
	overTCP(b, func(b *testing.B, m *mesh) {
		m.configure()
		ballot := make([]byte, ballotBytes)
		used := m.repeated(b, func(ctx context.Context, g *pg.Group) error {
			return g.Do(ctx, &pg.Op{Kind: pg.KindBallot, Ballot: ballot})
		})
		b.ReportMetric(float64(used)/m.messages()/1e3, "cpu-µs/message")
	})
}

// BenchmarkAllReduce: what a message and a byte cost when inputs are exchanged: 32 KiB for
// each part.
func BenchmarkAllReduce(b *testing.B) {
	overTCP(b, func(b *testing.B, m *mesh) {
		m.configure()
		const part = 32 << 10
		data := make([][]float32, m.n)
		for r := range data {
			data[r] = make([]float32, m.n*part/4)
		}
		b.SetBytes(int64(len(data[0]) * 4))
		used := m.repeated(b, func(ctx context.Context, g *pg.Group) error {
			return g.AllReduce(ctx, tensor.Of(data[g.Rank()]), tensor.Sum)
		})
		b.ReportMetric(float64(used)/(2*m.messages())/1e3, "cpu-µs/message")
	})
}

// BenchmarkIdle: what an edge costs while nothing happens but beats, both ends together.
func BenchmarkIdle(b *testing.B) {
	overTCP(b, func(b *testing.B, m *mesh) {
		m.configure()
		b.ResetTimer()
		for b.Loop() {
			at, began := processor(b), time.Now()
			if err := backoff.Sleep(b.Context(), 2*time.Second); err != nil {
				b.Fatal(err)
			}
			used := float64(processor(b)-at) / time.Since(began).Seconds()
			b.ReportMetric(used/m.edges()/1e3, "cpu-µs/edge·s")
		}
	})
}

// BenchmarkBreak: what it costs, and takes, until all have heard that one has ended.
func BenchmarkBreak(b *testing.B) {
	overTCP(b, func(b *testing.B, m *mesh) {
		var used, took time.Duration
		for b.Loop() {
			m.configure()
			at, began := processor(b), time.Now()
			m.each(func(ctx context.Context, rank int, g *pg.Group) error {
				if rank == 0 {
					g.Abort(errors.New("one of many ends"))
					return nil
				}
				if err := g.Barrier(ctx); err == nil {
					return errors.New("a barrier without rank 0 passed")
				}
				return nil
			})
			used, took = used+processor(b)-at, took+time.Since(began)
		}
		b.ReportMetric(float64(used)/float64(b.N)/m.messages()/1e3, "cpu-µs/message")
		b.ReportMetric(float64(took)/float64(b.N)/1e6, "ms/all-know")
	})
}
