package pg_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

func traced(t *testing.T, n int, c pg.TraceConfig) (*pgtest.World, []*pg.Trace) {
	t.Helper()
	var traces []*pg.Trace
	w := decoratedWorld(t, n, func(b pg.Backend) pg.Backend {
		traces = append(traces, pg.NewTrace(b, c))
		return traces[len(traces)-1]
	})
	return w, traces
}

// TestTraceStates: an op is scheduled while an earlier collective is under way,
// then started, then done or failed; sends and receives start at once.
func TestTraceStates(t *testing.T) {
	w, traces := traced(t, 2, pg.TraceConfig{Group: "dp"})
	g, peer := w.Groups[0], w.Groups[1]
	first := g.AllReduceAsync(tensor.New(tensor.Float32, 2, 3), tensor.Avg)
	second := g.BroadcastAsync(tensor.New(tensor.Int64, 4), 1)
	recv := g.RecvAsync(tensor.New(tensor.Uint8, 1), pg.Envelope{Peer: pg.AnySource, Tag: 7})
	check := func(want ...pg.TraceState) pg.TraceDump {
		t.Helper()
		d := traces[0].Dump()
		var got []pg.TraceState
		for _, e := range d.Entries {
			got = append(got, e.State)
		}
		if len(got) != len(want) {
			t.Fatalf("states %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("states %v, want %v", got, want)
			}
		}
		return d
	}
	d := check(pg.TraceStarted, pg.TraceScheduled, pg.TraceStarted)
	if d.Group != "dp" || d.Rank != 0 || len(d.ReplicaIDs) != 2 || d.QuorumID != w.Epoch().QuorumID {
		t.Errorf("dump %+v is not of rank 0 of 2 of dp", d)
	}
	if e := d.Entries[0]; e.What() != "all-reduce float32[2 3] avg" || e.Place != 1 || e.InBytes != 24 || e.Done != nil {
		t.Errorf("first op is %q, place %d, %d bytes, done %v", e.What(), e.Place, e.InBytes, e.Done)
	}
	theirs := peer.AllReduceAsync(tensor.New(tensor.Float32, 2, 3), tensor.Avg)
	wait(t, first, theirs)
	check(pg.TraceDone, pg.TraceStarted, pg.TraceStarted)
	wait(t, peer.SendAsync(tensor.New(tensor.Uint8, 1), pg.Envelope{Peer: 0, Tag: 7}), recv)
	d = check(pg.TraceDone, pg.TraceStarted, pg.TraceDone)
	if what := d.Entries[2].What(); what != "recv uint8[1] from 1 tag 7" {
		t.Errorf("third op is %q", what)
	}
	cause := errors.New("pulled the plug")
	peer.Abort(cause)
	<-second.Done()
	d = check(pg.TraceDone, pg.TraceFailed, pg.TraceDone)
	if e := d.Entries[1]; !strings.Contains(e.Error, "pulled the plug") || e.Seq != 2 {
		t.Errorf("failed op: seq %d error %q", e.Seq, e.Error)
	}
}

func wait(t *testing.T, works ...*pg.Work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.PromptBound)
	defer cancel()
	for _, w := range works {
		if err := w.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTraceRing: only the last ops are kept, what was refused takes no place,
// and every op of a batch is recorded.
func TestTraceRing(t *testing.T) {
	w, traces := traced(t, 1, pg.TraceConfig{Entries: 4})
	ctx, g := t.Context(), w.Groups[0]
	for range 3 {
		if err := g.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.AllReduce(ctx, tensor.New(tensor.Complex64, 1), tensor.Max); !errors.Is(err, pg.ErrInvalidOp) {
		t.Fatalf("max of complex numbers: %v", err)
	}
	x := []tensor.Tensor{tensor.New(tensor.Float32, 2)}
	if err := g.Batch(ctx, []*pg.Op{
		{Kind: pg.KindAllReduce, In: x, Out: x}, {Kind: pg.KindBarrier},
	}); err != nil {
		t.Fatal(err)
	}
	d := traces[0].Dump()
	if len(d.Entries) != 4 || d.Forgotten != 2 {
		t.Fatalf("%d entries, %d forgotten; want 4 and 2", len(d.Entries), d.Forgotten)
	}
	for i, want := range []struct {
		number, place, batch uint64
		state                pg.TraceState
	}{{3, 3, 0, pg.TraceDone}, {4, 0, 0, pg.TraceFailed}, {5, 4, 5, pg.TraceDone}, {6, 5, 5, pg.TraceDone}} {
		e := d.Entries[i]
		if e.Number != want.number || e.Place != want.place || e.Batch != want.batch || e.State != want.state {
			t.Errorf("entry %d is %+v, want %+v", i, e, want)
		}
	}
}

// TestTraceDumpsOnBreak: when a group breaks, every rank dumps once, one that
// was in no op too, and a dump can be read again.
func TestTraceDumpsOnBreak(t *testing.T) {
	dir := t.TempDir()
	w, traces := traced(t, 3, pg.TraceConfig{Group: "pp/0", Dump: pg.TraceFiles(filepath.Join(dir, "skerry-"))})
	pending := w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum)
	w.Groups[1].Abort(errors.New("told to stop"))
	<-pending.Done()
	for rank := range traces {
		name := filepath.Join(dir, "skerry-pp_0_g0_r"+string(rune('0'+rank))+"_q101.json")
		until(t, func() bool { _, err := os.Stat(name); return err == nil })
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := pg.ReadTrace(bytes.NewReader(raw))
		if err != nil || d.Rank != rank || !strings.Contains(d.Cause, "told to stop") {
			t.Errorf("rank %d: dump of rank %d, cause %q: %v", rank, d.Rank, d.Cause, err)
		}
	}
	text := filepath.Join(dir, "skerry-pp_0_g0_r0_q101.txt")
	until(t, func() bool { _, err := os.Stat(text); return err == nil })
	raw, err := os.ReadFile(text)
	if err != nil || !strings.Contains(string(raw), "all-reduce float32[10] sum") {
		t.Errorf("text dump %q: %v", raw, err)
	}
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("not so in time")
		}
		<-tick.C
	}
}

// TestTraceDumpsOncePerEpoch: and anew after Configure.
func TestTraceDumpsOncePerEpoch(t *testing.T) {
	var mu sync.Mutex
	dumps := map[int64]int{}
	w, _ := traced(t, 2, pg.TraceConfig{Dump: func(d pg.TraceDump) error {
		mu.Lock()
		defer mu.Unlock()
		dumps[d.QuorumID]++
		return nil
	}})
	for range 3 {
		w.Configure(w.Members...)
		id := w.Epoch().QuorumID
		w.Groups[0].Abort(errors.New("one"))
		w.Groups[0].Abort(errors.New("two"))
		_ = w.Groups[1].Barrier(t.Context()) // broken: it fails
		until(t, func() bool { mu.Lock(); defer mu.Unlock(); return dumps[id] == 2 })
	}
}

// TestTraceAllocatesNothing in steady state, over a backend that releases.
func TestTraceAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled memory on purpose")
	}
	g := pg.NewGroup(pg.NewTrace(&stub{}, pg.TraceConfig{Entries: 64}))
	if err := g.Configure(t.Context(), stubConfig(1)); err != nil {
		t.Fatal(err)
	}
	x := tensor.New(tensor.Float32, 2, 5)
	ctx := t.Context()
	if n := testing.AllocsPerRun(200, func() {
		if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a traced all-reduce allocates %v times", n)
	}
}
