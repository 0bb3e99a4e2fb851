package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// worldOf makes n configured members with a library and options.
func worldOf(t *testing.T, f *fakes, n int, o Options) *pgtest.World {
	t.Helper()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var members []pgtest.Member
	for i := range n {
		o.Device = f.device(t, 0)
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, w.Join(fmt.Sprintf("replica-%d", i), b))
	}
	w.Configure(members...)
	return w
}

// total checks a sum over the ranks of g.
func total(ctx context.Context, t *testing.T, b pg.Backend, g *pg.Group) error {
	x := onDevice(t, b, tensor.Of([]int64{int64(g.Rank()) + 1}))
	if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
		return err
	}
	n := int64(g.Size())
	if got := tensor.Slice[int64](onHost(t, x))[0]; got != n*(n+1)/2 {
		return fmt.Errorf("sum of %d ranks is %d, want %d", n, got, n*(n+1)/2)
	}
	return nil
}

// Subgroups are split from the group's communicator, in which all ranks take
// part, in order with its other ops; with an older library, or without the other
// ranks, they meet anew.
func TestSplit(t *testing.T) {
	f := open(t)
	old, err := OpenLibrary(buildNCCL(t, "early.so", "-DFAKE_NCCL_VERSION=21403"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		lib    *Library
		local  bool
		splits int64
	}{{"split", f.lib, false, 8}, {"old library", old, false, 0}, {"members alone", f.lib, true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			before := f.splits()
			w := worldOf(t, f, 4, Options{Library: c.lib})
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				b := w.Members[rank].Backend
				ahead := g.AllReduceAsync(onDevice(t, b, tensor.Of([]int32{1})), tensor.Sum)
				for first := range 2 {
					if c.local && rank%2 != first {
						continue
					}
					sub, err := g.NewGroup(ctx, []int{first, first + 2}, pg.GroupOptions{LocalSync: c.local})
					if err != nil {
						return err
					}
					if rank%2 != first {
						continue
					}
					if err := total(ctx, t, b, sub); err != nil {
						return err
					}
				}
				return errors.Join(ahead.Wait(ctx), total(ctx, t, b, g))
			})
			if got := f.splits() - before; got != c.splits {
				t.Errorf("%d calls of ncclCommSplit, want %d", got, c.splits)
			}
		})
	}
}

// A split that never ends fails NewGroup in its time, on every rank.
func TestSplitNeverEnds(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 2, Options{Library: f.lib})
	f.fault(splitNeverEnds)
	errs := make(chan error, 2)
	for _, g := range w.Groups {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), shortLimit)
			defer cancel()
			_, err := g.NewGroup(ctx, []int{0, 1}, pg.GroupOptions{})
			errs <- err
		}()
	}
	for range 2 {
		select {
		case err := <-errs:
			if err == nil {
				t.Error("a group came of a split that never ends")
			}
		case <-time.After(pgtest.Bound):
			t.Fatal("NewGroup does not end")
		}
	}
}

// A member that cannot make its part of a subgroup takes part in the split all the
// same: the group that is split goes on.
func TestSplitOfAFailedMember(t *testing.T) {
	testkit.Long(t)
	f := open(t)
	w := worldOf(t, f, 2, Options{Library: f.lib})
	ctx, cancel := context.WithTimeout(t.Context(), 10*shortLimit)
	defer cancel()
	before := f.splits()
	errs := make(chan error, 2)
	for rank, m := range w.Members {
		sub, err := m.Backend.(*Backend).Split([]int{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sub.Close() })
		cfg := w.Config(w.Members, rank)
		cfg.Cluster, cfg.StoreAddress = cfg.Cluster+".sub", cfg.StoreAddress+"/sub"
		if rank == 1 {
			cfg.StoreAddress = "127.0.0.1:1/nobody"
		}
		go func() {
			err := sub.Configure(ctx, cfg)
			if (err == nil) != (rank == 0) {
				errs <- fmt.Errorf("rank %d: configure: %w, want an error on rank 1 alone", rank, err)
				return
			}
			errs <- nil
		}()
	}
	for range w.Members {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := f.splits() - before; got != 2 {
		t.Errorf("%d calls of ncclCommSplit, want 2", got)
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		return total(ctx, t, w.Members[rank].Backend, g)
	})
}

// With Options.Shrink those who are left of a broken group make the next one out
// of its communicator; whoever joins makes all meet anew.
func TestShrink(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 3, Options{Library: f.lib, Shrink: true})
	all := w.Members
	step := func(want int64, members ...pgtest.Member) {
		t.Helper()
		before := f.shrinks()
		for _, g := range w.Groups {
			g.Abort(errors.New("a rank was lost"))
		}
		w.Configure(members...)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			return total(ctx, t, w.Members[rank].Backend, g)
		})
		if got := f.shrinks() - before; got != want {
			t.Errorf("%d calls of ncclCommShrink for %d ranks, want %d", got, len(members), want)
		}
	}
	step(2, all[0], all[2])
	step(0, all...)         // one has joined
	step(0, all[1], all[0]) // in another order
	step(1, all[0])
}

// An error of the library, which stays with the communicator that it broke, does not
// keep the next one from being made of it; where the library refuses to, or does so
// on one rank alone, all connect anew.
func TestShrinkAfterError(t *testing.T) {
	f := open(t)
	for _, c := range []struct {
		name    string
		faults  [2]int32 // of the op, of the shrink
		shrinks int64
	}{
		{"error stays", [2]int32{asyncError, asyncError}, 2},
		{"refused", [2]int32{asyncError, shrinkFails}, 0},
		{"refused on one rank", [2]int32{asyncError, shrinkFailsOne}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := worldOf(t, f, 3, Options{Library: f.lib, Shrink: true})
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				return total(ctx, t, w.Members[rank].Backend, g)
			})
			f.fault(c.faults[0])
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				x := onDevice(t, w.Members[rank].Backend, tensor.Of([]int32{1}))
				if err := g.AllReduce(ctx, x, tensor.Sum); err == nil {
					return errors.New("no error of the library")
				}
				return nil
			})
			f.fault(c.faults[1])
			before := f.shrinks()
			left := []pgtest.Member{w.Members[0], w.Members[2]}
			w.Next()
			configured := make(chan error, len(left))
			ctx, cancel := context.WithTimeout(t.Context(), 20*shortLimit)
			defer cancel()
			for rank, m := range left {
				go func() { configured <- m.Backend.Configure(ctx, w.Config(left, rank)) }()
			}
			for range left {
				if err := <-configured; err != nil {
					t.Fatal(err)
				}
			}
			f.fault(wellBehaved)
			if got := f.shrinks() - before; got != c.shrinks {
				t.Errorf("%d calls of ncclCommShrink were taken, want %d", got, c.shrinks)
			}
			for rank, m := range left {
				e, err := m.Backend.(*Backend).current()
				if err != nil {
					t.Fatal(err)
				}
				if shrunk := e.comm.born == nil; shrunk != (c.shrinks == 2) {
					t.Errorf("rank %d: shrunk %v", rank, shrunk)
				}
			}
			work := make([]*pg.Work, len(left))
			for rank, m := range left {
				x := onDevice(t, m.Backend, tensor.Of([]int64{1}))
				work[rank] = m.Backend.Submit(&pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Sum, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}})
			}
			for rank := range left {
				if err := work[rank].Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if got := tensor.Slice[int64](onHost(t, work[rank].Op().Out[0]))[0]; got != 2 {
					t.Errorf("rank %d: sum is %d, want 2", rank, got)
				}
			}
		})
	}
}

// A thread that only an abort frees is freed, though the communicator was to be
// shrunk.
func TestShrinkFreesTheThread(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 2, Options{Library: f.lib, Shrink: true})
	f.fault(callAwaitsAbort)
	x := onDevice(t, w.Members[0].Backend, tensor.Of([]int32{1}))
	work := w.Groups[0].AllReduceAsync(x, tensor.Sum)
	e, err := w.Members[0].Backend.(*Backend).current()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the thread is in the call", func() bool {
		if e.comm.calls.TryLock() {
			e.comm.calls.Unlock()
			return false
		}
		return true
	})
	for _, g := range w.Groups {
		g.Abort(errors.New("enough"))
	}
	if err := work.Wait(t.Context()); err == nil || errors.Is(err, ErrAbandoned) {
		t.Errorf("op: %v, want the abort, and nothing abandoned", err)
	}
	f.fault(wellBehaved)
	w.Configure(w.Members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		return total(ctx, t, w.Members[rank].Backend, g)
	})
}

// A revoke precedes the abort where the library has it, and one that hangs is
// given up in bounded time.
func TestRevoke(t *testing.T) {
	f := open(t)
	old, err := OpenLibrary(buildNCCL(t, "mid.so", "-DFAKE_NCCL_VERSION=22203"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		lib       *Library
		fault     int32
		revokes   int64
		abandoned bool
	}{{"revoked", f.lib, wellBehaved, 1, false}, {"older", old, wellBehaved, 0, false}, {"hangs", f.lib, revokeHangs, 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			before := f.revokes()
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			limit := pgtest.PromptBound
			if c.abandoned {
				limit = shortLimit
			}
			b, err := New(Options{Library: c.lib, Device: f.device(t, 0), AbortLimit: limit})
			if err != nil {
				t.Fatal(err)
			}
			w.Configure(pgtest.Member{ID: "solo", Backend: b})
			f.fault(c.fault)
			w.Groups[0].Abort(errors.New("enough"))
			err = b.Close()
			f.fault(wellBehaved)
			if errors.Is(err, ErrAbandoned) != c.abandoned {
				t.Errorf("close: %v, want abandoned: %v", err, c.abandoned)
			}
			if got := f.revokes() - before; got != c.revokes {
				t.Errorf("%d revokes, want %d", got, c.revokes)
			}
		})
	}
}

// A revoke that only the abort ends does not touch the communicator afterwards,
// which the abort has freed.
func TestRevokeEndedByAbort(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 1, Options{Library: f.lib, AbortLimit: shortLimit})
	b := w.Members[0].Backend
	others, before := revoking(), f.revokes()
	f.fault(revokeAwaitsAbort)
	w.Groups[0].Abort(errors.New("enough"))
	if err := b.Close(); !errors.Is(err, ErrAbandoned) {
		t.Errorf("close: %v, want ErrAbandoned of the revoke", err)
	}
	testkit.Eventually(t, "the revoke has come back", func() bool { return f.revokes() == before+1 })
	testkit.Eventually(t, "nobody is in it", func() bool { return revoking() == others })
	if n := f.misuse(); n != 0 {
		t.Errorf("%d calls took a communicator that had ended", n)
	}
}

// revoking counts the goroutines within a revoke; other tests have left some.
func revoking() int {
	all := make([]byte, 4<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "(*communicator).revoke.func1(")
}

// Reduce ops of premul-sum are destroyed: when there are many, and at the end.
func TestReduceOpsDestroyed(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 1, Options{Library: f.lib})
	b := w.Members[0].Backend
	x := onDevice(t, b, tensor.Of([]float64{1}))
	for i := range 3 * maxOps {
		work := w.Groups[0].Submit(&pg.Op{
			Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: tensor.PreMulSum, Factor: 1 + 1/float64(i+1),
		})
		if err := work.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := f.ops(); n > maxOps+1 {
			t.Fatalf("%d ops are registered, want at most %d", n, maxOps+1)
		}
	}
	if got := tensor.Slice[float64](onHost(t, x))[0]; got < 3*maxOps || got > 3*maxOps+2 {
		t.Errorf("product of (i+1)/i up to %d is %v", 3*maxOps, got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n := f.ops(); n != 0 {
		t.Errorf("%d ops are left", n)
	}
}
