package pg_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/fault"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// stub is a backend that completes each op at once, or never if hold is set,
// and releases its works as backends should.
type stub struct {
	pg.Backend
	config pg.Config
	hold   bool

	mu      sync.Mutex
	held    []*pg.Work
	aborted []pg.Epoch
}

func (s *stub) Name() string                                   { return "stub" }
func (s *stub) Configure(_ context.Context, c pg.Config) error { s.config = c; return nil }
func (s *stub) Err() error                                     { return nil }
func (s *stub) Submit(op *pg.Op) *pg.Work {
	if op.Kind == pg.KindBatch && !s.hold {
		return pg.SubmitBatch(s, op)
	}
	w := pg.NewWork(op)
	if s.hold {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append(s.held, w)
		return w
	}
	op.Source = 1
	w.Complete(nil)
	w.Release()
	return w
}

func (s *stub) Abort(e pg.Epoch, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborted = append(s.aborted, e)
	for _, w := range s.held {
		w.Complete(cause)
	}
}

func stubConfig(id int64) pg.Config {
	return pg.Config{ReplicaIDs: []string{"a", "b"}, Cluster: "c", QuorumID: id}
}

// TestVerbsAllocateNothing: blocking verbs take op and Work from a pool, with
// and without a cancellable context, and through decorators.
func TestVerbsAllocateNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	manager := managedtest.New(2, 0, 0, 1)
	groups := map[string]pg.Backend{
		"plain":    &stub{},
		"swallow":  pg.NewSwallow(&stub{}),
		"injector": fault.NewInjector(&stub{}),
		"managed":  pg.NewManaged(&stub{}, manager),
	}
	x := tensor.Of(make([]float32, 10))
	slots := []tensor.Tensor{tensor.Of(make([]float32, 10)), tensor.Of(make([]float32, 10))}
	other := []tensor.Tensor{tensor.Of(make([]float32, 10)), tensor.Of(make([]float32, 10))}
	big, flat := tensor.Of(make([]float32, 20)), tensor.Of(make([]float32, 20))
	exchange := []*pg.Op{pg.SendOp(x, pg.Envelope{Peer: 1}), pg.RecvOp(other[0], pg.Envelope{Peer: 1})}
	columns := [][]tensor.Tensor{other[:1], other[1:]}
	for name, b := range groups {
		g := pg.NewGroup(b)
		if err := g.Configure(ctx, stubConfig(1)); err != nil {
			t.Fatal(err)
		}
		verbs := map[string]func() error{
			"all-reduce":       func() error { return g.AllReduce(ctx, x, tensor.Avg) },
			"coalesced":        func() error { return g.AllReduceCoalesced(ctx, slots, tensor.Sum) },
			"reduce":           func() error { return g.Reduce(ctx, x, tensor.Sum, 1) },
			"broadcast":        func() error { return g.Broadcast(ctx, x, 0) },
			"all-gather":       func() error { return g.AllGather(ctx, x, slots) },
			"reduce-scatter":   func() error { return g.ReduceScatter(ctx, slots, x, tensor.Sum) },
			"all-to-all":       func() error { return g.AllToAll(ctx, slots, other) },
			"into tensor":      func() error { return g.AllGatherIntoTensor(ctx, x, big) },
			"scatter tensor":   func() error { return g.ReduceScatterTensor(ctx, big, x, tensor.Sum) },
			"single":           func() error { return g.AllToAllSingle(ctx, big, flat, pg.Splits{}) },
			"batch":            func() error { return g.BatchSendRecv(ctx, exchange) },
			"gather coalesced": func() error { return g.AllGatherCoalesced(ctx, slots[:1], columns) },
			"scatter coalesced": func() error {
				return g.ReduceScatterTensorCoalesced(ctx, []tensor.Tensor{big}, slots[:1], tensor.Sum)
			},
			"barrier": func() error { return g.Barrier(ctx) },
			"send":    func() error { return g.Send(ctx, x, pg.Envelope{Peer: 1}) },
			"recv":    func() error { _, err := g.Recv(ctx, x, pg.Envelope{Peer: 1}); return err },
		}
		for verb, f := range verbs {
			n := testing.AllocsPerRun(200, func() {
				if err := f(); err != nil {
					t.Fatalf("%s over %s: %v", verb, name, err)
				}
			})
			if n > 0 && !testkit.RaceEnabled { // the race detector drops pooled memory on purpose
				t.Errorf("%s over %s allocates %v times", verb, name, n)
			}
		}
	}
}

// TestCancelAbortsTheEpochUnderWay: the epoch that a verb aborts when its
// context ends is the one it was submitted in.
func TestCancelAbortsTheEpochUnderWay(t *testing.T) {
	s := &stub{hold: true}
	g := pg.NewGroup(s)
	for id := range int64(3) {
		if err := g.Configure(t.Context(), stubConfig(id+1)); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := g.Barrier(ctx); !errors.Is(err, cause) {
		t.Errorf("barrier: %v, want %v", err, cause)
	}
	if want := (pg.Epoch{Cluster: "c", QuorumID: 3}); len(s.aborted) != 1 || s.aborted[0] != want {
		t.Errorf("aborted %v, want %v once", s.aborted, want)
	}
}

// TestDeadlineOfContext: an op carries the deadline of its verb's context.
func TestDeadlineOfContext(t *testing.T) {
	s := &stub{hold: true}
	g := pg.NewGroup(s)
	if err := g.Configure(t.Context(), stubConfig(1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	want, _ := ctx.Deadline()
	if err := g.Barrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("barrier: %v, want DeadlineExceeded", err)
	}
	if got := s.held[0].Op().Deadline; !got.Equal(want) {
		t.Errorf("op's deadline is %v, want the context's %v", got, want)
	}
}

// TestPooledWorkIsNotReusedEarly: memory of a call whose backend has not let go
// serves no other call.
func TestPooledWorkIsNotReusedEarly(t *testing.T) {
	s := &stub{hold: true}
	g := pg.NewGroup(s)
	var seen []*pg.Work
	for range 3 {
		done := make(chan error, 1)
		go func() { done <- g.Barrier(context.Background()) }()
		var w *pg.Work
		for w == nil {
			s.mu.Lock()
			if len(s.held) > len(seen) {
				w = s.held[len(seen)]
			}
			s.mu.Unlock()
		}
		w.Complete(nil) // and no Release
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for _, old := range seen {
			if old == w {
				t.Fatal("a Work that the backend still holds was used again")
			}
		}
		seen = append(seen, w)
		w.Complete(errors.New("late")) // must not touch another op
	}
}

func TestWork(t *testing.T) {
	w := pg.NewWork(&pg.Op{})
	var order []string
	w.Then(func(error) {
		order = append(order, "first")
		w.Then(func(error) { order = append(order, "nested") })
	})
	w.Then(func(error) { order = append(order, "second") })
	if w.Finished() || w.Err() != nil {
		t.Error("a fresh Work is finished")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("not now")
	cancel(cause)
	if err := w.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("wait: %v, want %v", err, cause)
	}
	first := errors.New("first")
	w.Complete(first)
	w.Complete(errors.New("second"))
	<-w.Done()
	if !errors.Is(w.Err(), first) || !w.Finished() {
		t.Errorf("error is %v, want that of the first Complete", w.Err())
	}
	w.Then(func(error) { order = append(order, "late") })
	want := []string{"first", "second", "nested", "late"}
	if len(order) != len(want) {
		t.Fatalf("functions ran as %v, want %v", order, want)
	}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("functions ran as %v, want %v", order, want)
		}
	}
}

// TestWorkCompleteRace: of two goroutines that complete a Work one wins, and
// everybody sees its error.
func TestWorkCompleteRace(t *testing.T) {
	for range 200 {
		w := pg.NewWork(&pg.Op{})
		told := make(chan error, 1)
		w.Then(func(err error) { told <- err })
		var wg sync.WaitGroup
		for _, err := range []error{nil, errors.New("aborted")} {
			wg.Go(func() { w.Complete(err) })
		}
		wg.Wait()
		<-w.Done()
		if got := <-told; got != w.Err() {
			t.Fatalf("Then saw %v, Err is %v", got, w.Err())
		}
	}
}

// TestGroupVerbs: every verb, blocking and async, over the in-memory backend.
func TestGroupVerbs(t *testing.T) {
	net := pgtest.NewMemory()
	w := pgtest.NewWorld(t, "verbs")
	w.Configure(w.Join("a", net.Backend()), w.Join("b", net.Backend()))
	f := func(v ...float64) tensor.Tensor { return tensor.Of(v) }
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		r := float64(rank)
		x, out := f(r+1), []tensor.Tensor{f(0), f(0)}
		in := []tensor.Tensor{f(10*r + 1), f(10*r + 2)}
		atRoot := func(ts []tensor.Tensor) []tensor.Tensor {
			if rank == 1 {
				return ts
			}
			return nil
		}
		var got []float64
		note := func(t tensor.Tensor) { got = append(got, tensor.Slice[float64](t)[0]) }
		works := []*pg.Work{
			g.AllReduceAsync(x, tensor.Sum),                           // 3
			g.AllReduceCoalescedAsync([]tensor.Tensor{x}, tensor.Avg), // 3
			g.BroadcastAsync(x, 1),                                    // 3
			g.AllGatherAsync(x, out),                                  // 3 3
			g.GatherAsync(in[0], atRoot(out), 1),                      // at 1: 1 11
			g.ReduceScatterAsync(in, x, tensor.Max),                   // 11, 12
			g.ScatterAsync(atRoot(in), x, 1),                          // 11, 12
			g.ReduceAsync(x, tensor.Sum, 0),                           // at 0: 23
			g.AllToAllAsync([]tensor.Tensor{x, x}, out),               // 23 12
			g.BarrierAsync(),
			g.SendAsync(x, pg.Envelope{Peer: 1 - rank, Tag: 3}),
			g.RecvAsync(in[0], pg.Envelope{Peer: pg.AnySource, Tag: 3}),
		}
		for _, work := range works {
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		if from := works[11].Op().Source; from != 1-rank {
			return errors.New("wrong source")
		}
		note(x)
		note(out[0])
		note(out[1])
		note(in[0])
		want := [][]float64{{23, 23, 12, 12}, {12, 23, 12, 23}}[rank]
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("rank %d: got %v, want %v", rank, got, want)
				break
			}
		}
		return nil
	})
}
