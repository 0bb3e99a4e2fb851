package trace_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

func traced(t *testing.T, n int, c trace.Config) (*pgtest.World, []*trace.Recorder) {
	t.Helper()
	var traces []*trace.Recorder
	w := pgtest.MemoryWorld(t, n, func(b pg.Backend) pg.Backend {
		traces = append(traces, trace.NewRecorder(b, c))
		return traces[len(traces)-1]
	})
	return w, traces
}

// TestStates: an op is scheduled while an earlier collective is under way,
// then started, then done or failed; sends and receives start at once.
func TestStates(t *testing.T) {
	w, traces := traced(t, 2, trace.Config{Group: "dp"})
	g, peer := w.Groups[0], w.Groups[1]
	first := g.AllReduceAsync(tensor.New(tensor.Float32, 2, 3), tensor.Avg)
	second := g.BroadcastAsync(tensor.New(tensor.Int64, 4), 1)
	recv := g.RecvAsync(tensor.New(tensor.Uint8, 1), pg.Envelope{Peer: pg.AnySource, Tag: 7})
	check := func(want ...trace.State) trace.Dump {
		t.Helper()
		d := traces[0].Dump()
		var got []trace.State
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
	d := check(trace.Started, trace.Scheduled, trace.Started)
	if d.Group != "dp" || d.Rank != 0 || len(d.ReplicaIDs) != 2 || d.QuorumID != w.Epoch().QuorumID {
		t.Errorf("dump %+v is not of rank 0 of 2 of dp", d)
	}
	if e := d.Entries[0]; e.What() != "all-reduce float32[2 3] avg" || e.Place != 1 || e.InBytes != 24 || e.Done != nil {
		t.Errorf("first op is %q, place %d, %d bytes, done %v", e.What(), e.Place, e.InBytes, e.Done)
	}
	theirs := peer.AllReduceAsync(tensor.New(tensor.Float32, 2, 3), tensor.Avg)
	wait(t, first, theirs)
	check(trace.Done, trace.Started, trace.Started)
	wait(t, peer.SendAsync(tensor.New(tensor.Uint8, 1), pg.Envelope{Peer: 0, Tag: 7}), recv)
	d = check(trace.Done, trace.Started, trace.Done)
	if what := d.Entries[2].What(); what != "recv uint8[1] from 1 tag 7" {
		t.Errorf("third op is %q", what)
	}
	cause := errors.New("pulled the plug")
	peer.Abort(cause)
	<-second.Done()
	d = check(trace.Done, trace.Failed, trace.Done)
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

// TestRing: only the last ops are kept, what was refused takes no place,
// and every op of a batch is recorded.
func TestRing(t *testing.T) {
	w, traces := traced(t, 1, trace.Config{Entries: 4})
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
		state                trace.State
	}{{3, 3, 0, trace.Done}, {4, 0, 0, trace.Failed}, {5, 4, 5, trace.Done}, {6, 5, 5, trace.Done}} {
		e := d.Entries[i]
		if e.Number != want.number || e.Place != want.place || e.Batch != want.batch || e.State != want.state {
			t.Errorf("entry %d is %+v, want %+v", i, e, want)
		}
	}
}

// TestDumpsOnBreak: when a group breaks, every rank dumps once, one that
// was in no op too, and a dump can be read again.
func TestDumpsOnBreak(t *testing.T) {
	dir := t.TempDir()
	w, traces := traced(t, 3, trace.Config{Group: "pp/0", Dump: trace.Files(filepath.Join(dir, "skerry-"))})
	pending := w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum)
	w.Groups[1].Abort(errors.New("told to stop"))
	<-pending.Done()
	for rank := range traces {
		name := filepath.Join(dir, "skerry-pp_0_g0_r"+string(rune('0'+rank))+"_q101.json")
		testkit.Eventually(t, "there is a dump in JSON", func() bool { _, err := os.Stat(name); return err == nil })
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := trace.Read(bytes.NewReader(raw))
		if err != nil || d.Rank != rank || !strings.Contains(d.Cause, "told to stop") {
			t.Errorf("rank %d: dump of rank %d, cause %q: %v", rank, d.Rank, d.Cause, err)
		}
	}
	text := filepath.Join(dir, "skerry-pp_0_g0_r0_q101.txt")
	testkit.Eventually(t, "there is a dump in text", func() bool { _, err := os.Stat(text); return err == nil })
	raw, err := os.ReadFile(text)
	if err != nil || !strings.Contains(string(raw), "all-reduce float32[10] sum") {
		t.Errorf("text dump %q: %v", raw, err)
	}
}

// TestDumpsOncePerEpoch: and anew after Configure.
func TestDumpsOncePerEpoch(t *testing.T) {
	var mu sync.Mutex
	dumps := map[int64]int{}
	w, _ := traced(t, 2, trace.Config{Dump: func(d trace.Dump) error {
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
		testkit.Eventually(t, "both ranks have dumped", func() bool { mu.Lock(); defer mu.Unlock(); return dumps[id] == 2 })
	}
}

// TestAllocatesNothing in steady state, over a backend that releases.
func TestAllocatesNothing(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector drops pooled memory on purpose")
	}
	g := pg.NewGroup(trace.NewRecorder(dummy.New(), trace.Config{Entries: 64}))
	if err := g.Configure(t.Context(), pg.Config{StoreAddress: "s/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
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
