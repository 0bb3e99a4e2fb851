package pgtest

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// chunkBytes is how much of the grid runs between two looks at the clock.
const chunkBytes = 256 << 20

// RunGrid runs the cells of grid that a backend has, in this process, and
// reports what it ran and what it skipped. World sizes above MaxWorldSize are
// left out.
func RunGrid(t *testing.T, h Harness, grid Grid) GridReport {
	t.Helper()
	h = h.withDefaults()
	var report GridReport
	for _, world := range grid.worlds() {
		if world > h.MaxWorldSize {
			report.skip(fmt.Sprintf("backend has at most %d ranks", h.MaxWorldSize), len(grid.Cells(world)))
			continue
		}
		cells, r := Split(grid.Cells(world), h.Kinds, h.DTypes)
		report.Add(r)
		if len(cells) == 0 {
			continue
		}
		t.Run(fmt.Sprintf("world=%d", world), func(t *testing.T) { RunWorld(t, h, cells) })
	}
	return report
}

// RunWorld runs cells of one world size, which the backend has, in this process.
func RunWorld(t *testing.T, h Harness, cells []Cell) {
	t.Helper()
	w := newWorld(t, h, cells[0].World)
	for len(cells) > 0 {
		n := chunkOf(cells)
		w.Each(func(ctx context.Context, _ int, g *pg.Group) error { return RunCells(ctx, g, cells[:n]) })
		cells = cells[n:]
	}
}

// chunkOf is how many cells fit one chunk, at least one.
func chunkOf(cells []Cell) int {
	n, bytes := 0, 0
	for n < len(cells) && (n == 0 || bytes < chunkBytes) {
		bytes += cells[n].Bytes * cells[n].World
		n++
	}
	return n
}

// RunCells does cells in order as one rank of g.
func RunCells(ctx context.Context, g *pg.Group, cells []Cell) error {
	for _, c := range cells {
		if err := RunCell(ctx, g, c); err != nil {
			return err
		}
	}
	return nil
}

// withDefaults fills what is left out.
func (h Harness) withDefaults() Harness {
	if h.Kinds == nil {
		h.Kinds = pg.Kinds()
	}
	if h.DTypes == nil {
		h.DTypes = tensor.DTypes()
	}
	h.MaxWorldSize = cmp.Or(h.MaxWorldSize, 5)
	return h
}
