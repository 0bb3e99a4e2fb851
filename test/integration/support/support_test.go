package support

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write the page anew")

const page = "../../../docs/SUPPORT.md"

// backends are measured, in this order.
var backends = []string{"tcp", "baby:tcp"}

// column is what was found out about a backend.
type column struct {
	verbs  map[string]string // by verb
	madeOf map[string]string // kinds of ops that it takes
	moves  map[pg.Kind][]string
	ops    map[tensor.DType]map[tensor.ReduceOp]string
}

// TestSupport: docs/SUPPORT.md says what the backends do, no more and no less.
func TestSupport(t *testing.T) {
	columns := make(map[string]*column)
	for _, name := range backends {
		columns[name] = measure(t, name)
	}
	got := render(columns)
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/SUPPORT.md is not what the backends do; run go generate ./test/integration/support:\n%s", diff)
	}
}

// measure runs everything on two ranks of a backend.
func measure(t *testing.T, name string) *column {
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var members []pgtest.Member
	var traces []*trace.Recorder
	for i := range worldSize {
		b, err := pg.Open(name, pg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		trace := trace.NewRecorder(b, trace.Config{Entries: 64})
		traces = append(traces, trace)
		members = append(members, w.Join(fmt.Sprintf("r%d", i), trace))
	}
	w.Configure(members...)
	c := &column{
		verbs: make(map[string]string), madeOf: make(map[string]string),
		moves: make(map[pg.Kind][]string), ops: make(map[tensor.DType]map[tensor.ReduceOp]string),
	}
	run := func(what string, f func(context.Context, *pg.Group) error) string {
		t.Helper()
		return outcome(t, w, what, f)
	}
	for _, v := range verbs() {
		before := [worldSize]uint64{lastOp(traces[0]), lastOp(traces[1])}
		c.verbs[v.name] = run(v.name, v.call)
		c.madeOf[v.name] = kindsSince(traces, before)
	}
	for _, d := range tensor.DTypes() {
		for _, k := range movers {
			if got := run(fmt.Sprintf("%v of %v", k, d), func(ctx context.Context, g *pg.Group) error {
				return moves(ctx, g, k, d)
			}); got != "yes" {
				c.moves[k] = append(c.moves[k], fmt.Sprintf("%v: %s", d, got))
			}
		}
		c.ops[d] = make(map[tensor.ReduceOp]string)
		for _, o := range tensor.ReduceOps() {
			c.ops[d][o] = reduceOutcome(run, d, o)
		}
	}
	return c
}

// movers are the kinds that move elements as they are; a receive goes with its
// send.
var movers = []pg.Kind{
	pg.KindBroadcast, pg.KindAllGather, pg.KindGather, pg.KindScatter, pg.KindAllToAll, pg.KindSend,
}

var reducers = []pg.Kind{pg.KindAllReduce, pg.KindReduce, pg.KindReduceScatter}

// reduceOutcome is that of all kinds that reduce, if it is one.
func reduceOutcome(
	run func(string, func(context.Context, *pg.Group) error) string, d tensor.DType, o tensor.ReduceOp,
) string {
	var all []string
	for _, k := range reducers {
		all = append(all, run(fmt.Sprintf("%v of %v by %v", k, d, o), func(ctx context.Context, g *pg.Group) error {
			return reduces(ctx, g, k, d, o)
		}))
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return all[0]
	}
	return strings.Join(all, "/")
}

// outcome is "yes", "no" (ErrUnsupported) or "–" (ErrInvalidOp: it makes no
// sense). Anything else fails the test; so does a group that broke.
func outcome(t *testing.T, w *pgtest.World, what string, f func(context.Context, *pg.Group) error) string {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err := f(ctx, g)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
		return g.Err()
	})
	results := make(map[string]bool)
	for _, err := range errs {
		switch {
		case err == nil:
			results["yes"] = true
		case errors.Is(err, pg.ErrUnsupported):
			results["no"] = true
		case errors.Is(err, pg.ErrInvalidOp):
			results["–"] = true
		default:
			t.Fatalf("%s: %v", what, err)
		}
	}
	if len(results) != 1 {
		t.Fatalf("%s: ranks differ: %v", what, errs)
	}
	for r := range results {
		return r
	}
	return ""
}

func lastOp(trace *trace.Recorder) uint64 {
	entries := trace.Dump().Entries
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Number
}

// kindsSince are the kinds of the ops of both ranks after some, each once.
func kindsSince(traces []*trace.Recorder, after [worldSize]uint64) string {
	var kinds []string
	for rank, trace := range traces {
		for _, e := range trace.Dump().Entries {
			if e.Number > after[rank] && !slices.Contains(kinds, e.Kind) {
				kinds = append(kinds, e.Kind)
			}
		}
	}
	return strings.Join(kinds, ", ")
}
