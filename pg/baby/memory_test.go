package baby

import (
	"context"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// pair makes a configured world of two.
func pair(t testing.TB, o Options) *pgtest.World {
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("a", newBaby(t, o)), w.Join("b", newBaby(t, o)))
	return w
}

// Tensors of Alloc are reduced where they lie, parts of them too, across
// reconfigurations and in new children, and Free gives them back.
func TestAlloc(t *testing.T) {
	t.Parallel()
	w := pair(t, Options{})
	tensors := make([]tensor.Tensor, 2)
	for rank := range tensors {
		b := w.Members[rank].Backend.(*Backend)
		x, err := b.Alloc(tensor.Float32, 100, 10)
		if err != nil {
			t.Fatal(err)
		}
		tensors[rank] = x
	}
	for round := range 3 {
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			x := tensors[rank]
			for i := range tensor.Slice[float32](x) {
				tensor.Slice[float32](x)[i] = float32(i + rank)
			}
			if err := g.AllReduce(ctx, x.Slice(10, 90), tensor.Sum); err != nil {
				return err
			}
			for i, v := range tensor.Slice[float32](x) {
				want := float32(i + rank)
				if i >= 100 && i < 900 {
					want = float32(2*i + 1)
				}
				if v != want {
					return fmt.Errorf("round %d: element %d is %v, want %v", round, i, v, want)
				}
			}
			return nil
		})
		for rank, m := range w.Members {
			c, _ := m.Backend.(*Backend).current()
			c.mu.Lock()
			sent := len(c.mu.sent)
			c.mu.Unlock()
			if sent != 1 {
				t.Errorf("rank %d: the child has %d segments, want that of Alloc alone", rank, sent)
			}
		}
		w.Configure(w.Members...)
	}
	for rank, x := range tensors {
		b := w.Members[rank].Backend.(*Backend)
		if err := b.Free(x); err != nil {
			t.Errorf("free: %v", err)
		}
		if err := b.Free(tensor.New(tensor.Float32, 3)); err == nil {
			t.Error("free of a tensor that is not of Alloc: no error")
		}
	}
}

// Bounds of Alloc name what was asked for.
func TestAllocBounds(t *testing.T) {
	t.Parallel()
	b := newBaby(t, Options{})
	for _, shape := range [][]int{{-1}, {1 << 40, 1 << 40}, {maxAllocBytes}} {
		if x, err := b.Alloc(tensor.Float32, shape...); err == nil {
			t.Errorf("alloc of %v gave %v, want an error", shape, x)
		}
	}
	if _, err := b.Alloc(tensor.Invalid, 1); err == nil {
		t.Error("alloc of an invalid dtype: no error")
	}
	empty, err := b.Alloc(tensor.Int8, 0)
	if err != nil || empty.Len() != 0 {
		t.Errorf("alloc of nothing: %v, %v", empty, err)
	}
}

// Staging memory serves one op after another, and blocks do not overlap.
func TestStaging(t *testing.T) {
	t.Parallel()
	var m memory
	seen := map[*byte]bool{}
	var blocks []*block
	for _, n := range []int{1, 4096, 4097, 70_000, 1 << 20, 1<<20 + 1, 1, 4096} {
		b, err := m.stage(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.bytes) < n || seen[&b.bytes[0]] {
			t.Errorf("stage(%d) gave %d bytes, seen before: %v", n, len(b.bytes), seen[&b.bytes[0]])
		}
		seen[&b.bytes[0]] = true
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		if seg := m.unstage(b); seg != nil {
			t.Errorf("unstage of %d bytes dropped a segment below the bound", len(b.bytes))
		}
	}
	segments := len(m.mu.segments)
	if b, err := m.stage(5000); err != nil || !seen[&b.bytes[0]] && len(m.mu.segments) != segments {
		t.Errorf("a block that was given back is not used again (%v)", err)
	}
	m.close()
	if _, err := m.stage(1); err == nil {
		t.Error("stage after close: no error")
	}
}
