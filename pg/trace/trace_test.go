package trace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tracedWorld makes n ranks with traces.
func tracedWorld(t *testing.T, n int) (*pgtest.World, func() []trace.Dump) {
	t.Helper()
	net := pgtest.NewMemory()
	w := pgtest.NewWorld(t, t.Name())
	var members []pgtest.Member
	for i := range n {
		b := trace.NewRecorder(net.Backend(), trace.Config{Group: "dp"})
		members = append(members, w.Join(string(rune('a'+i)), b))
	}
	w.Configure(members...)
	return w, func() []trace.Dump {
		var dumps []trace.Dump
		for _, m := range members {
			dumps = append(dumps, m.Backend.(*trace.Recorder).Dump())
		}
		return dumps
	}
}

// one analyses dumps of one group.
func one(t *testing.T, dumps []trace.Dump) trace.Group {
	t.Helper()
	groups := trace.Analyse(dumps)
	if len(groups) != 1 {
		t.Fatalf("%d groups, want 1", len(groups))
	}
	return groups[0]
}

// check compares the findings, each as "kind place ranks".
func check(t *testing.T, g trace.Group, want ...string) {
	t.Helper()
	var got []string
	for _, f := range g.Findings {
		got = append(got, fmt.Sprintf("%s %d %v", f.Kind, f.Place, f.Ranks))
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q: %+v", got, want, g.Findings)
	}
}

func barriers(w *pgtest.World, n int) {
	w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
		var errs []error
		for range n {
			errs = append(errs, g.Barrier(ctx))
		}
		return errors.Join(errs...)
	})
}

// TestMissing: the rank that did not come is named, with what it missed.
func TestMissing(t *testing.T) {
	w, dump := tracedWorld(t, 3)
	barriers(w, 2)
	for _, rank := range []int{0, 2} {
		w.Groups[rank].AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum)
	}
	g := one(t, dump())
	check(t, g, "missing 3 [1]")
	want := "collective 3, all-reduce float32[4] sum: rank 1 (b) did not call it; ranks 0 (a), 2 (c) did"
	if got := g.Findings[0].Text; got != want {
		t.Errorf("finding %q, want %q", got, want)
	}
	if g.Last[0] != 3 || g.Last[1] != 2 {
		t.Errorf("last collectives %v", g.Last)
	}
}

// TestMismatch: who called what is said of all.
func TestMismatch(t *testing.T) {
	w, dump := tracedWorld(t, 3)
	barriers(w, 1)
	for rank, g := range w.Groups {
		if rank == 1 {
			g.BroadcastAsync(tensor.New(tensor.Float32, 4), 0)
			continue
		}
		g.AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum)
	}
	g := one(t, dump())
	check(t, g, "mismatch 2 [1]")
	if text := g.Findings[0].Text; !strings.Contains(text, "rank 1 (b) called broadcast float32[4] root 0") ||
		!strings.Contains(text, "ranks 0 (a), 2 (c) called all-reduce float32[4] sum") {
		t.Errorf("finding %q", text)
	}
}

// TestSilent: with no dump of the rank that is missing, all others are stuck.
func TestSilent(t *testing.T) {
	w, dump := tracedWorld(t, 3)
	barriers(w, 1)
	for _, rank := range []int{0, 1} {
		w.Groups[rank].BarrierAsync()
		w.Groups[rank].BarrierAsync()
	}
	g := one(t, dump()[:2])
	check(t, g, "stuck 2 [0 1]")
	if !slices.Equal(g.Silent, []int{2}) || !strings.Contains(g.Findings[0].Text, "nothing is known of rank 2 (c)") {
		t.Errorf("silent %v, finding %q", g.Silent, g.Findings[0].Text)
	}
}

// TestUnmatched: a receive without a send.
func TestUnmatched(t *testing.T) {
	w, dump := tracedWorld(t, 2)
	w.Groups[1].RecvAsync(tensor.New(tensor.Uint8, 1), pg.Envelope{Peer: 0, Tag: 3})
	g := one(t, dump())
	check(t, g, "unmatched 0 [1]")
	if want := "rank 1 (b): 1 × recv uint8[1] from 0 tag 3 without an end"; g.Findings[0].Text != want {
		t.Errorf("finding %q, want %q", g.Findings[0].Text, want)
	}
}

// TestNothingWrong: slots that only the root has, and uneven ones, are no
// mismatch.
func TestNothingWrong(t *testing.T) {
	w, dump := tracedWorld(t, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var slots []tensor.Tensor
		if rank == 0 {
			slots = []tensor.Tensor{tensor.New(tensor.Float32, 2), tensor.New(tensor.Float32, 2)}
		}
		return errors.Join(
			g.Scatter(ctx, slots, tensor.New(tensor.Float32, 2), 0),
			g.Gather(ctx, tensor.New(tensor.Float32, 2), slots, 0),
			g.Reduce(ctx, tensor.New(tensor.Float32, 2), tensor.Sum, 0))
	})
	g := one(t, dump())
	check(t, g)
	var s strings.Builder
	if err := g.WriteText(&s); err != nil || !strings.Contains(s.String(), "nothing is wrong") {
		t.Errorf("text %q: %v", &s, err)
	}
}

// TestReadFiles: files that cannot be read are named, the others count, and a
// newer dump of a rank replaces the older.
func TestReadFiles(t *testing.T) {
	w, dump := tracedWorld(t, 2)
	dir := t.TempDir()
	var names []string
	for i := range 2 {
		barriers(w, 1)
		for rank, d := range dump() {
			write := trace.Files(fmt.Sprintf("%s/%d-", dir, i))
			if err := write(d); err != nil {
				t.Fatal(err)
			}
			names = append(names, fmt.Sprintf("%s/%d-dp_g0_r%d_q%d.json", dir, i, rank, d.QuorumID))
		}
	}
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	dumps, err := trace.ReadFiles(append(names, bad))
	if err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), names[0]) {
		t.Errorf("error %v, want one that names %s alone", err, bad)
	}
	if g := one(t, dumps); len(dumps) != 4 || g.Last[0] != 2 || g.Last[1] != 2 {
		t.Errorf("%d dumps, last %v; want 4, and the newest of each rank", len(dumps), g.Last)
	}
}

// Dumps that say they are of one group, and name other replicas.
func TestOtherReplicas(t *testing.T) {
	dumps := []trace.Dump{
		{Group: "dp", Cluster: "c", QuorumID: 7, Rank: 0, ReplicaIDs: []string{"a"}},
		{Group: "dp", Cluster: "c", QuorumID: 7, Rank: 2, ReplicaIDs: []string{"x", "y", "z"}},
	}
	groups := trace.Analyse(dumps)
	if len(groups) != 1 || len(groups[0].Findings) != 1 || groups[0].Findings[0].Kind != trace.Mismatch {
		t.Fatalf("%+v, want one group with a mismatch", groups)
	}
	var out strings.Builder
	if err := groups[0].WriteText(&out); err != nil {
		t.Fatal(err)
	}
	const want = "MISMATCH: the dumps of rank 2 (z) name other replicas than those of rank 0 (x)"
	if !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}
