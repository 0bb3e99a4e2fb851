package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// works is fine in a group whose ranks all take part.
func works(w *World) {
	w.t.Helper()
	n := len(w.Groups)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []int64{1 << rank, int64(rank)}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
			return err
		}
		if want := []int64{1<<n - 1, int64(n * (n - 1) / 2)}; !slices.Equal(x, want) {
			return fmt.Errorf("sum is %v, want %v", x, want)
		}
		return nil
	})
}

// ended waits until every pending work of every rank has failed.
func ended(t *testing.T, pending []*pg.Work) {
	t.Helper()
	within(t, PromptBound, "pending ops of a broken group", func() {
		for _, work := range pending {
			<-work.Done()
		}
	})
	for i, work := range pending {
		if work.Err() == nil {
			t.Errorf("pending op %d succeeded in a broken group", i)
		}
	}
}

// isBroken checks that a group is: Err tells a cause, and each later call
// returns at once ErrAborted joined with that cause.
func isBroken(t *testing.T, g *pg.Group, cause error) {
	t.Helper()
	await(t, "group is broken", g.Errored)
	first := g.Err()
	if cause != nil && !errors.Is(first, cause) {
		t.Errorf("Err is %v, want the first cause: %v", first, cause)
	}
	var err error
	within(t, PromptBound, "call on a broken group", func() {
		err = g.Barrier(context.Background())
	})
	if !errors.Is(err, pg.ErrAborted) {
		t.Errorf("call on a broken group: %v, want ErrAborted", err)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("call on a broken group: %v, want it joined with %v", err, cause)
	}
	if again := g.Err(); again.Error() != first.Error() {
		t.Errorf("Err changed from %v to %v", first, again)
	}
}

// blames checks that err names culprit as peer, by rank and replica id, and
// this rank and quorum.
func blames(t *testing.T, w *World, rank int, err error, culprit int) {
	t.Helper()
	e, ok := errors.AsType[*pg.OpError](err)
	if !ok {
		t.Errorf("rank %d: %v (%T), want an OpError", rank, err, err)
		return
	}
	if e.Rank != rank || e.QuorumID != w.Epoch().QuorumID {
		t.Errorf("rank %d: error of rank %d, quorum %d, want quorum %d", rank, e.Rank, e.QuorumID, w.Epoch().QuorumID)
	}
	if e.Peer != culprit || e.PeerID != w.Members[culprit].ID {
		t.Errorf("rank %d: error names peer %d (%s), want %d (%s): %v",
			rank, e.Peer, e.PeerID, culprit, w.Members[culprit].ID, err)
	}
}

// testAbort: Abort from any goroutine fails every pending op on all ranks
// promptly, the aborter's with its cause, the others' with an error that names
// the aborter; the first cause wins; afterwards the memory is the caller's.
func testAbort(t *testing.T, h Harness) {
	for _, worldSize := range []int{2, 4} {
		w := newWorld(t, h, worldSize)
		works(w)
		const aborter = 1
		cause := errors.New("told to stop")
		var pending []*pg.Work
		var memory [][]float32
		submit := func(rank int) {
			for _, n := range []int{1, 400_000} {
				x := make([]float32, n)
				memory = append(memory, x)
				pending = append(pending, w.Groups[rank].AllReduceAsync(tensor.Of(x), tensor.Sum))
			}
		}
		for rank := range worldSize {
			if rank != 0 { // rank 0 never comes
				submit(rank)
			}
		}
		within(t, PromptBound, "abort", func() { w.Groups[aborter].Abort(cause) })
		w.Groups[aborter].Abort(errors.New("a later cause"))
		ended(t, pending)
		for _, x := range memory {
			clear(x) // a race, if anybody still touches it
		}
		for i, work := range pending {
			rank := 1 + i/2
			if rank == aborter {
				if !errors.Is(work.Err(), cause) {
					t.Errorf("pending op of the aborter: %v, want its cause", work.Err())
				}
				continue
			}
			blames(t, w, rank, work.Err(), aborter)
		}
		isBroken(t, w.Groups[aborter], cause)
		for _, g := range w.Groups {
			isBroken(t, g, nil)
		}
	}
}

// testAbortOtherEpoch: Abort for an epoch that is not the current one does
// nothing: an error of an old epoch never marks a new one.
func testAbortOtherEpoch(t *testing.T, h Harness) {
	w := newWorld(t, h, 2)
	old := w.Epoch()
	w.Configure(w.Members...)
	late := errors.New("late news")
	for _, e := range []pg.Epoch{
		old, {}, {Cluster: old.Cluster, QuorumID: old.QuorumID + 1000},
		{Cluster: "another", QuorumID: w.Epoch().QuorumID},
	} {
		w.Members[0].Backend.Abort(e, late)
	}
	works(w)
	if err := w.Groups[0].Err(); err != nil {
		t.Errorf("Err is %v, want none", err)
	}
}

// testCancel: when the context of a blocking verb ends, the verb returns its
// cause, and the peers that wait for the same op fail too.
func testCancel(t *testing.T, h Harness) {
	w := newWorld(t, h, 3)
	cause := errors.New("the caller lost patience")
	peer := w.Groups[2].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Groups[1].AllReduce(ctx, tensor.New(tensor.Float32, 10), tensor.Sum) }()
	cancel(cause)
	within(t, PromptBound, "cancelled verb", func() {
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("cancelled verb: %v, want %v", err, cause)
		}
	})
	ended(t, []*pg.Work{peer})
	isBroken(t, w.Groups[0], nil)
}

// testDeadline: an op that a peer never calls fails at its deadline, with an
// error that says so, and the rest of the group learns of it.
func testDeadline(t *testing.T, h Harness) {
	w := newWorld(t, h, 3)
	submit := func(rank int, limit time.Duration) *pg.Work {
		x := tensor.New(tensor.Float32, 10)
		return w.Groups[rank].Submit(&pg.Op{
			Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(limit),
		})
	}
	late, waiting := submit(0, 100*time.Millisecond), submit(1, Bound)
	ended(t, []*pg.Work{late, waiting})
	if err := late.Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("op at its deadline: %v, want DeadlineExceeded", err)
	}
	isBroken(t, w.Groups[2], nil)
}

// testPeerCloses: when a backend closes, its own pending ops fail with
// ErrClosed, and those of its peers with an error that names it.
func testPeerCloses(t *testing.T, h Harness) {
	const leaver = 1
	w := newWorld(t, h, 3)
	works(w)
	var pending []*pg.Work
	for rank := range leaver + 1 {
		pending = append(pending, w.Groups[rank].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum))
	}
	within(t, PromptBound, "close", func() {
		if err := w.Groups[leaver].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ended(t, pending)
	if err := pending[leaver].Err(); !errors.Is(err, pg.ErrClosed) {
		t.Errorf("pending op of the one that closed: %v, want ErrClosed", err)
	}
	blames(t, w, 0, pending[0].Err(), leaver)
	isBroken(t, w.Groups[2], nil)
}

// testPeerKilled: when the links of a peer break without a word, every rank's
// pending ops fail with ErrPeerLost, or are told so, and name the dead one.
func testPeerKilled(t *testing.T, h Harness) {
	if h.Kill == nil {
		t.Skip("harness cannot kill")
	}
	const dead = 1
	w := newWorld(t, h, 3)
	works(w)
	pending := []*pg.Work{
		w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum),
		w.Groups[2].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum),
	}
	h.Kill(w.Members[dead].Backend)
	ended(t, pending)
	blames(t, w, 0, pending[0].Err(), dead)
	blames(t, w, 2, pending[1].Err(), dead)
	first := 0
	for _, work := range pending {
		if e, ok := errors.AsType[*pg.OpError](work.Err()); ok && e.First {
			first++
			if !errors.Is(e, pg.ErrPeerLost) {
				t.Errorf("first witness says %v, want ErrPeerLost", e)
			}
		}
	}
	if first == 0 {
		t.Error("nobody claims to have seen the link break")
	}
	w.Configure(w.Members[0], w.Members[2])
	works(w)
}

// testMismatch: ranks that call different verbs, or one verb with different
// sizes, dtypes or reduce ops, all get ErrMismatch, which names what was
// called; nobody hangs.
func testMismatch(t *testing.T, h Harness) {
	f32 := func(n int) tensor.Tensor { return tensor.New(tensor.Float32, n) }
	cases := []struct {
		name string
		call func(g *pg.Group, rank int) *pg.Work
		says []string
	}{
		{"kind", func(g *pg.Group, rank int) *pg.Work {
			if rank == 1 {
				return g.BroadcastAsync(f32(8), 0)
			}
			return g.AllReduceAsync(f32(8), tensor.Sum)
		}, []string{"all-reduce", "broadcast"}},
		{"size", func(g *pg.Group, rank int) *pg.Work { return g.AllReduceAsync(f32(100+rank), tensor.Sum) }, nil},
		{"big size", func(g *pg.Group, rank int) *pg.Work { return g.AllReduceAsync(f32(400_000+rank), tensor.Sum) }, nil},
		{"dtype", func(g *pg.Group, rank int) *pg.Work {
			return g.AllReduceAsync(tensor.New([]tensor.DType{tensor.Float32, tensor.Int32}[rank], 8), tensor.Sum)
		}, []string{"float32", "int32"}},
		{"reduce op", func(g *pg.Group, rank int) *pg.Work {
			return g.AllReduceAsync(f32(8), []tensor.ReduceOp{tensor.Sum, tensor.Max}[rank])
		}, []string{"sum", "max"}},
		{"root", func(g *pg.Group, rank int) *pg.Work { return g.BroadcastAsync(f32(8), rank) }, nil},
	}
	w := newWorld(t, h, 2)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			w.Configure(w.Members...)
			works(w)
			pending := []*pg.Work{c.call(w.Groups[0], 0), c.call(w.Groups[1], 1)}
			ended(t, pending)
			for rank, work := range pending {
				err := work.Err()
				if !errors.Is(err, pg.ErrMismatch) {
					t.Errorf("rank %d: %v, want ErrMismatch", rank, err)
					continue
				}
				for _, word := range c.says {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("rank %d: %q does not name %q", rank, err, word)
					}
				}
			}
		})
	}
	w.t = t
}

// testRound: ops of one round match; ops of different rounds break the group.
func testRound(t *testing.T, h Harness) {
	w := newWorld(t, h, 2)
	rounders := make([]pg.Rounder, len(w.Members))
	for i, m := range w.Members {
		r, ok := m.Backend.(pg.Rounder)
		if !ok {
			t.Skip("backend has no rounds")
		}
		rounders[i] = r
	}
	for _, r := range rounders {
		r.SetRound(5)
	}
	works(w)
	rounders[0].SetRound(6)
	ended(t, []*pg.Work{
		w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum),
		w.Groups[1].AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum),
	})
}
