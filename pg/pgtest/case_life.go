package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// testLife: before Configure every call gives ErrUnconfigured and Abort is a
// no-op; after Close every call gives ErrClosed; Close can be called twice.
func testLife(t *testing.T, h Harness) {
	b := h.New(t)
	g := pg.NewGroup(b)
	ctx := context.Background()
	if b.Name() == "" {
		t.Error("backend has no name")
	}
	if err := g.Barrier(ctx); !errors.Is(err, pg.ErrUnconfigured) {
		t.Errorf("barrier before Configure: %v, want ErrUnconfigured", err)
	}
	if err := g.Err(); !errors.Is(err, pg.ErrUnconfigured) {
		t.Errorf("Err before Configure: %v, want ErrUnconfigured", err)
	}
	b.Abort(pg.Epoch{}, errors.New("nothing to abort"))
	if err := g.Err(); !errors.Is(err, pg.ErrUnconfigured) {
		t.Errorf("Err after an abort before Configure: %v, want ErrUnconfigured", err)
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := g.Barrier(ctx); !errors.Is(err, pg.ErrClosed) {
		t.Errorf("barrier after Close: %v, want ErrClosed", err)
	}
	w := NewWorld(t, h.storeAddress(t))
	if err := g.Configure(ctx, w.Config([]Member{{ID: "a"}}, 0)); !errors.Is(err, pg.ErrClosed) {
		t.Errorf("Configure after Close: %v, want ErrClosed", err)
	}
}

// testInvalidOp: an op that no group could run is refused on the rank that
// submits it, with a message that names the value, and the group goes on.
func testInvalidOp(t *testing.T, h Harness) {
	const worldSize = 2
	w := newWorld(t, h, worldSize)
	f32 := tensor.New(tensor.Float32, 6)
	strided, err := f32.AsStrided([]int{3}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	one := func(x tensor.Tensor) []tensor.Tensor { return []tensor.Tensor{x} }
	bad := map[string]*pg.Op{
		"kind":           {Kind: pg.Kind(200)},
		"not contiguous": {Kind: pg.KindAllReduce, In: one(strided), Out: one(strided)},
		"no tensor":      {Kind: pg.KindAllReduce},
		"two dtypes":     {Kind: pg.KindAllReduce, In: one(f32), Out: one(tensor.New(tensor.Int32, 6))},
		"two sizes":      {Kind: pg.KindAllReduce, In: one(f32), Out: one(f32.Slice(0, 5))},
		"integer mean":   {Kind: pg.KindAllReduce, Reduce: tensor.Avg, In: one(tensor.New(tensor.Int32, 1)), Out: one(tensor.New(tensor.Int32, 1))},
		"reduce op":      {Kind: pg.KindAllReduce, Reduce: 99, In: one(f32), Out: one(f32)},
		"divisor":        {Kind: pg.KindAllReduce, Reduce: tensor.Avg, Divisor: -1, In: one(f32), Out: one(f32)},
		"root":           {Kind: pg.KindBroadcast, Root: worldSize, In: one(f32), Out: one(f32)},
		"slots":          {Kind: pg.KindAllGather, In: one(f32), Out: one(f32)},
		"own peer":       {Kind: pg.KindSend, Peer: 0, In: one(f32)},
		"tag":            {Kind: pg.KindSend, Peer: 1, Tag: -1, In: one(f32)},
	}
	for name, op := range bad {
		work := w.Groups[0].Submit(op)
		within(t, PromptBound, "invalid op", func() { <-work.Done() })
		if !errors.Is(work.Err(), pg.ErrInvalidOp) {
			t.Errorf("%s: %v, want ErrInvalidOp", name, work.Err())
		}
		if errors.Is(work.Err(), pg.ErrAborted) {
			t.Errorf("%s: broke the group: %v", name, work.Err())
		}
	}
	works(w)
}

// testUnsupported: kinds that the backend does not have give ErrUnsupported
// and break nothing.
func testUnsupported(t *testing.T, h Harness) {
	w := newWorld(t, h, 2)
	x := []tensor.Tensor{tensor.New(h.DTypes[0], 1)}
	two := []tensor.Tensor{x[0], tensor.New(h.DTypes[0], 1)}
	other := []tensor.Tensor{tensor.New(h.DTypes[0], 1), tensor.New(h.DTypes[0], 1)}
	valid := map[pg.Kind]*pg.Op{
		pg.KindAllReduce:     {Reduce: tensor.Max, In: x, Out: x},
		pg.KindReduce:        {Reduce: tensor.Max, In: x, Out: x},
		pg.KindBroadcast:     {In: x, Out: x},
		pg.KindAllGather:     {In: x, Out: two},
		pg.KindGather:        {In: x, Out: two},
		pg.KindScatter:       {In: two, Out: x},
		pg.KindReduceScatter: {Reduce: tensor.Max, In: two, Out: x},
		pg.KindAllToAll:      {In: two, Out: other},
		pg.KindBarrier:       {},
		pg.KindSend:          {Peer: 1, In: x},
		pg.KindRecv:          {Peer: 1, Out: x},
		pg.KindBallot:        {},
		pg.KindBatch:         {Batch: []*pg.Op{{Kind: pg.KindBarrier}}},
	}
	for _, k := range pg.Kinds() {
		if slices.Contains(h.Kinds, k) {
			continue
		}
		op := valid[k]
		op.Kind = k
		work := w.Groups[0].Submit(op)
		within(t, PromptBound, "unsupported op", func() { <-work.Done() })
		if !errors.Is(work.Err(), pg.ErrUnsupported) {
			t.Errorf("%v: %v, want ErrUnsupported", k, work.Err())
		}
	}
	if err := w.Groups[0].Err(); err != nil {
		t.Errorf("unsupported ops broke the group: %v", err)
	}
}

// testReconfigure: a group can grow, shrink, permute its ranks and replace
// members, from a healthy state and after an abort, and sums are right each
// time; a Configure ends the epoch before.
func testReconfigure(t *testing.T, h Harness) {
	w := NewWorld(t, h.storeAddress(t))
	m := make([]Member, 5)
	for i := range m {
		m[i] = w.Join(fmt.Sprintf("replica-%d", i), h.New(t))
	}
	steps := []struct {
		name    string
		members []Member
	}{
		{"two", []Member{m[0], m[1]}},
		{"grown by one", []Member{m[0], m[1], m[2]}},
		{"permuted", []Member{m[2], m[0], m[1]}},
		{"one replaced", []Member{m[2], m[3], m[1]}},
		{"grown by two", []Member{m[2], m[3], m[1], m[0], m[4]}},
		{"shrunk to one", []Member{m[4]}},
		{"all permuted", []Member{m[4], m[3], m[2], m[1], m[0]}},
	}
	for i, s := range steps {
		w.Configure(s.members...)
		works(w)
		if i%2 == 0 && len(s.members) > 1 {
			cause := fmt.Errorf("end of %s", s.name)
			pending := w.Groups[1].AllReduceAsync(tensor.New(tensor.Float32, 400_000), tensor.Sum)
			w.Groups[0].Abort(cause)
			ended(t, []*pg.Work{pending})
			isBroken(t, w.Groups[0], cause)
		}
	}
	// Configure in the middle of an op ends it.
	pending := w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum)
	w.Configure(m[0], m[4])
	ended(t, []*pg.Work{pending})
	works(w)
}

// testUsedPrefix: a prefix or an epoch is used once; a second Configure with it
// is refused promptly, and the next one with fresh ones works.
func testUsedPrefix(t *testing.T, h Harness) {
	w := newWorld(t, h, 2)
	again := func(what string, change func(*pg.Config)) {
		t.Helper()
		c := w.configs[0]
		change(&c)
		ctx, cancel := context.WithTimeout(context.Background(), PromptBound)
		defer cancel()
		var err error
		within(t, Bound, "configure with "+what, func() { err = w.Members[0].Backend.Configure(ctx, c) })
		if !errors.Is(err, pg.ErrUsedPrefix) {
			t.Errorf("configure with %s: %v, want ErrUsedPrefix", what, err)
		}
	}
	again("everything used", func(*pg.Config) {})
	again("a used prefix", func(c *pg.Config) { c.QuorumID += 500 })
	again("a used epoch", func(c *pg.Config) { c.StoreAddress += "/again" })
	w.Next()
	w.Configure(w.Members...)
	works(w)
}

// testConfigureEnds: a Configure whose peers never come ends with its context
// or with an abort of its epoch; the group is broken then, and a new quorum id
// makes it work.
func testConfigureEnds(t *testing.T, h Harness) {
	w := NewWorld(t, h.storeAddress(t))
	a, b := w.Join("a", h.New(t)), w.Join("b", h.New(t))
	both := []Member{a, b}
	w.Next()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var err error
	within(t, PromptBound, "configure without peers", func() { err = a.Backend.Configure(ctx, w.Config(both, 0)) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("configure without peers: %v, want DeadlineExceeded", err)
	}
	if a.Backend.Err() == nil {
		t.Error("Err is nil after a failed Configure")
	}

	w.Next()
	c := w.Config(both, 0)
	cause := errors.New("no longer wanted")
	done := make(chan error, 1)
	go func() { done <- a.Backend.Configure(context.Background(), c) }()
	tick := time.NewTicker(10 * time.Millisecond) // it may not have begun yet
	defer tick.Stop()
	within(t, PromptBound, "aborted configure", func() {
		for {
			select {
			case err = <-done:
				return
			case <-tick.C:
				a.Backend.Abort(c.Epoch(), cause)
			}
		}
	})
	if !errors.Is(err, cause) {
		t.Errorf("aborted configure: %v, want %v", err, cause)
	}
	w.Configure(both...)
	works(w)
}

// testLeaks: after Close nothing is left: no goroutine, no descriptor.
func testLeaks(t *testing.T, h Harness) {
	address := h.storeAddress(t)
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	t.Run("world", func(t *testing.T) {
		w := NewWorld(t, address)
		m := []Member{w.Join("a", h.New(t)), w.Join("b", h.New(t)), w.Join("c", h.New(t))}
		w.Configure(m...)
		works(w)
		w.Configure(m[0], m[2])
		works(w)
		w.Groups[0].Abort(errors.New("enough"))
		isBroken(t, w.Groups[1], nil)
	})
	// The store lives on; its goroutines may have started only after we looked.
	const run = "github.com/skerry-ft/skerry/store.(*Server).Run"
	if err := goleak.Find(before, goleak.IgnoreAnyFunction(run), goleak.IgnoreAnyFunction(run+".func1")); err != nil {
		t.Errorf("goroutines left after Close: %v", err)
	}
	await(t, "descriptors are closed", func() bool { return openFiles(t) <= files })
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("cannot count descriptors: %v", err)
	}
	return len(entries)
}
