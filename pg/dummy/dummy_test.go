package dummy_test

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConforms: a world of one rank, where every collective is a copy.
func TestConforms(t *testing.T) {
	kinds := slices.DeleteFunc(pg.Kinds(), pg.Kind.PointToPoint)
	pgtest.RunWith(t, pgtest.Harness{
		New:          func(*testing.T) pg.Backend { return dummy.New() },
		StoreAddress: func(t *testing.T) string { return t.Name() },
		Kinds:        kinds,
		MaxWorldSize: 1,
		NoDigests:    true,
	})
}

func TestVerbs(t *testing.T) {
	d := dummy.New()
	g := pg.NewGroup(d)
	ctx := t.Context()
	for id := range int64(2) {
		c := pg.Config{StoreAddress: "nowhere", ReplicaIDs: []string{"me"}, QuorumID: id + 1}
		if err := g.Configure(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := g.Configure(ctx, c); !errors.Is(err, pg.ErrUsedPrefix) {
			t.Errorf("configured twice: %v, want ErrUsedPrefix", err)
		}
	}
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"a", "b"}}); err == nil {
		t.Error("the dummy backend took two ranks")
	}
	if d.Configures() != 2 {
		t.Errorf("%d configures, want 2", d.Configures())
	}
	x, out := []float32{6}, []tensor.Tensor{tensor.Of([]float32{0})}
	other := []tensor.Tensor{tensor.Of([]float32{0})}
	err := errors.Join(
		g.AllReduce(ctx, tensor.Of(x), tensor.Avg), g.Reduce(ctx, tensor.Of(x), tensor.Sum, 0), g.Broadcast(ctx, tensor.Of(x), 0),
		g.AllGather(ctx, tensor.Of(x), out), g.Gather(ctx, tensor.Of(x), out, 0), g.Scatter(ctx, out, tensor.Of(x), 0),
		g.ReduceScatter(ctx, out, tensor.Of(x), tensor.Max), g.AllToAll(ctx, out, other), g.Barrier(ctx))
	if err != nil || x[0] != 6 || tensor.Slice[float32](out[0])[0] != 6 {
		t.Errorf("x is %v, out %v, %v; want 6, 6", x, out, err)
	}
	op := &pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Avg, Divisor: 3, In: out, Out: out}
	if err := g.Do(ctx, op); err != nil || tensor.Slice[float32](out[0])[0] != 2 {
		t.Errorf("6 over 3 is %v, %v", tensor.Slice[float32](out[0]), err)
	}
	g.Abort(errors.New("cut"))
	if err := g.Barrier(ctx); !errors.Is(err, pg.ErrAborted) {
		t.Errorf("barrier of a broken dummy backend: %v, want ErrAborted", err)
	}
}
