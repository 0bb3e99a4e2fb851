package dist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestInitMesh: a grid of 2 by 3, row-major, whose groups reduce along their
// lines.
func TestInitMesh(t *testing.T) {
	w := pgtest.MemoryWorld(t, 6, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m, err := dist.InitMesh(ctx, g, []dist.MeshSize{{Name: "dp", Size: 2}, {Name: "tp", Size: 3}}, pg.GroupOptions{})
		if err != nil {
			return err
		}
		if got := fmt.Sprint(m, m.Shape(), m.Coordinate(), m.NumRanks()); got !=
			fmt.Sprintf("mesh dp=2 tp=3 [2 3] [%d %d] 6", rank/3, rank%3) {
			t.Errorf("rank %d: %s", rank, got)
		}
		sums := []int64{int64(rank%3 + rank%3 + 3), int64(rank/3*9 + 3)}
		for i, name := range m.Names() { // one order on all ranks
			want := sums[i]
			line, err := m.Group(name)
			if err != nil {
				return err
			}
			x := []int64{int64(rank)}
			if err := line.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil || x[0] != want {
				return fmt.Errorf("sum along %s is %d, want %d: %w", name, x[0], want, err)
			}
		}
		sub, err := m.Sub("tp")
		if err != nil || sub.Size("tp") != 3 || sub.Rank("tp") != rank%3 || sub.Size("dp") != 0 || sub.Rank("dp") != -1 {
			t.Errorf("sub mesh %v: %v", sub, err)
		}
		return nil
	})
}

// TestMeshResizable: a dimension under Managed shows size 1 and rank 0 whatever
// takes part, while its group says how many do.
func TestMeshResizable(t *testing.T) {
	shard := pg.NewGroup(dummy.New())
	if err := shard.Configure(t.Context(), pg.Config{ReplicaIDs: []string{"a"}, QuorumID: 1}); err != nil {
		t.Fatal(err)
	}
	managed := pg.NewGroup(pg.NewManaged(dummy.New(), managedtest.New(3, 1, 0, 1, 2)))
	m, err := dist.NewMesh(dist.MeshDim{Name: "shard", Group: shard})
	if err != nil {
		t.Fatal(err)
	}
	m, err = m.Extend(dist.MeshDim{Name: "replicate", Group: managed}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.String() != "mesh replicate=1* shard=1" || !m.Resizable("replicate") || m.Resizable("shard") {
		t.Errorf("mesh is %v", m)
	}
	if m.Size("replicate") != 1 || m.Rank("replicate") != 0 || managed.Size() != 3 || managed.Rank() != 1 {
		t.Errorf("resizable dimension shows %d and %d, its group %d and %d; want 1, 0, 3, 1",
			m.Size("replicate"), m.Rank("replicate"), managed.Size(), managed.Rank())
	}
	if !slices.Equal(m.Names(), []string{"replicate", "shard"}) {
		t.Errorf("names are %v", m.Names())
	}
}

// TestMeshMisuse: every mistake has an error that names it.
func TestMeshMisuse(t *testing.T) {
	a, b := pg.NewGroup(dummy.New()), pg.NewGroup(dummy.New())
	m, err := dist.NewMesh(dist.MeshDim{Name: "a", Group: a})
	if err != nil {
		t.Fatal(err)
	}
	second := func(dims ...dist.MeshDim) error { _, err := dist.NewMesh(dims...); return err }
	_, unknown := m.Group("b")
	_, outside := m.Extend(dist.MeshDim{Name: "b", Group: b}, 2)
	_, sub := m.Sub("a", "b")
	xs := []dist.MeshSize{{Name: "x", Size: 2}}
	_, unconfigured := dist.InitMesh(t.Context(), a, xs, pg.GroupOptions{})
	_, size := dist.InitMesh(t.Context(), pgtest.MemoryWorld(t, 1, nil).Groups[0], xs, pg.GroupOptions{})
	for name, c := range map[string]struct{ got, want error }{
		"none":       {second(), pg.ErrInvalidOp},
		"no name":    {second(dist.MeshDim{Group: a}), pg.ErrInvalidOp},
		"no group":   {second(dist.MeshDim{Name: "a"}), pg.ErrInvalidOp},
		"name twice": {second(dist.MeshDim{Name: "a", Group: a}, dist.MeshDim{Name: "a", Group: b}), pg.ErrNameTaken},
		"one group":  {second(dist.MeshDim{Name: "a", Group: a}, dist.MeshDim{Name: "b", Group: a}), pg.ErrInvalidOp},
		"unknown":    {unknown, pg.ErrUnknownGroup},
		"outside":    {outside, pg.ErrInvalidOp},
		"sub":        {sub, pg.ErrUnknownGroup},
		"size":       {size, pg.ErrInvalidOp},
		"no quorum":  {unconfigured, pg.ErrUnconfigured},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// TestDirectory: one name, one group, and back.
func TestDirectory(t *testing.T) {
	var d dist.Directory
	a, b := pg.NewGroup(dummy.New()), pg.NewGroup(dummy.New())
	if err := d.Register("dp", a); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a name twice":  d.Register("dp", b),
		"a group twice": d.Register("tp", a),
	} {
		if !errors.Is(err, pg.ErrNameTaken) {
			t.Errorf("%s: %v, want ErrNameTaken", name, err)
		}
	}
	if err := d.Register("", b); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("no name: %v", err)
	}
	if g, err := d.Find("dp"); g != a || err != nil {
		t.Errorf("found %v, %v", g, err)
	}
	if _, err := d.Find("tp"); !errors.Is(err, pg.ErrUnknownGroup) {
		t.Errorf("unknown: %v", err)
	}
	if name, ok := d.NameOf(a); name != "dp" || !ok {
		t.Errorf("name is %q", name)
	}
	if err := errors.Join(d.Unregister(a), d.Register("dp", b)); err != nil || !slices.Equal(d.Names(), []string{"dp"}) {
		t.Errorf("name again: %v, names %v", err, d.Names())
	}
	if err := d.Unregister(a); !errors.Is(err, pg.ErrUnknownGroup) {
		t.Errorf("unregister twice: %v", err)
	}
}

// TestWorldHasADirectory: groups of a world are found in it by name.
func TestWorldHasADirectory(t *testing.T) {
	var w dist.World
	g := pg.NewGroup(dummy.New())
	if err := w.Register("dp", g); err != nil {
		t.Fatal(err)
	}
	if found, err := w.Find("dp"); found != g || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}
