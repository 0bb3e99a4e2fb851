package pgtest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Cell is one combination of the grid that every backend is checked over: a
// verb, a dtype, a reduce op where the verb reduces, a size and a world size.
type Cell struct {
	Verb   string
	DType  tensor.DType
	Reduce tensor.ReduceOp // Sum for verbs that do not reduce
	Bytes  int             // of all slots together, rounded up to whole elements
	World  int
}

// String names the cell: "all-reduce float32 sum bytes=1024 world=3".
func (c Cell) String() string {
	op := ""
	if v, ok := verbNamed(c.Verb); ok && v.reduces {
		op = " " + c.Reduce.String()
	}
	return fmt.Sprintf("%s %v%s bytes=%d world=%d", c.Verb, c.DType, op, c.Bytes, c.World)
}

// Skip is why a backend of these kinds and dtypes does not run the cell, or "".
func (c Cell) Skip(kinds []pg.Kind, dtypes []tensor.DType) string {
	v, ok := verbNamed(c.Verb)
	if !ok {
		return "unknown verb"
	}
	for _, k := range v.kinds {
		if !slices.Contains(kinds, k) {
			return "backend has no " + k.String()
		}
	}
	switch {
	case !slices.Contains(dtypes, c.DType):
		return "backend has no " + c.DType.String()
	case v.reduces && c.DType.Reduces(c.Reduce) != nil:
		return fmt.Sprintf("no %v of %v", c.Reduce, c.DType)
	case c.Reduce == tensor.PreMulSum && strings.HasSuffix(c.Verb, " multi"):
		return "no premul-sum over several tensors of a rank"
	case c.World < v.least:
		return fmt.Sprintf("%s needs %d ranks", c.Verb, v.least)
	}
	return ""
}

// Elements is how many elements all slots together have.
func (c Cell) elements() int {
	size := c.DType.Size()
	return (c.Bytes + size - 1) / size
}

// slot is how many elements each of the slots of a verb with a slot per rank has.
func (c Cell) slot() int { return (c.elements() + c.World - 1) / c.World }

// GridSizes are the sizes of the grid, in bytes: nothing, one element, an odd
// number, both sides of what backends treat in different ways (a small message,
// a frame, a window), and large.
func GridSizes() []int {
	return []int{0, 1, 1021, 4 << 10, 32<<10 + 4, 256 << 10, 1<<20 + 52, 8 << 20, 32 << 20}
}

// Grid is which cells to run.
type Grid struct {
	Worlds   []int // nil: 1 to 8
	Sizes    []int // nil: GridSizes
	MinBytes int   // leaves smaller sizes out
	MaxBytes int   // leaves larger sizes out; 0: none
	Cover    Cover // the design; over all of Worlds and Sizes
	Sample   int   // run one cell of so many, drawn by Seed; 0 and 1: all
	Seed     uint64
}

// Cells lists the cells of one world size, those to be skipped too.
func (g Grid) Cells(world int) []Cell {
	worlds, sizes := g.worlds(), g.sizes()
	at := slices.Index(worlds, world)
	if at < 0 {
		return nil
	}
	var cells []Cell
	for _, r := range rows() {
		for i, bytes := range sizes {
			c := Cell{Verb: r.verb.name, DType: r.dtype, Reduce: r.reduce, Bytes: bytes, World: world}
			if g.Cover.has(r, place{size: i, world: at, worlds: len(worlds)}) && g.drawn(c) {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// sizes are those within the bounds.
func (g Grid) sizes() []int {
	all := g.Sizes
	if all == nil {
		all = GridSizes()
	}
	return slices.DeleteFunc(slices.Clone(all), func(n int) bool {
		return n < g.MinBytes || g.MaxBytes > 0 && n > g.MaxBytes
	})
}

func (g Grid) worlds() []int {
	if g.Worlds != nil {
		return g.Worlds
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}

// drawn tells whether a cell is in the sample, on every rank alike.
func (g Grid) drawn(c Cell) bool {
	if g.Sample <= 1 {
		return true
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d %d %d %d", g.Seed, c.Verb, c.DType, c.Reduce, c.Bytes, c.World)
	return h.Sum64()%uint64(g.Sample) == 0
}

// GridReport counts what became of the cells.
type GridReport struct {
	Ran     int
	Skipped map[string]int // by reason
}

// Add adds another report.
func (r *GridReport) Add(o GridReport) {
	r.Ran += o.Ran
	for why, n := range o.Skipped {
		r.skip(why, n)
	}
}

func (r *GridReport) skip(why string, n int) {
	if r.Skipped == nil {
		r.Skipped = make(map[string]int)
	}
	r.Skipped[why] += n
}

// String is "123 cells run, 45 skipped: 5 no sum of bool; …".
func (r *GridReport) String() string {
	total, reasons := 0, []string{}
	for why, n := range r.Skipped {
		total += n
		reasons = append(reasons, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(reasons)
	s := fmt.Sprintf("%d cells run, %d skipped", r.Ran, total)
	for i, why := range reasons {
		if i == 0 {
			s += ": "
		} else {
			s += "; "
		}
		s += why
	}
	return s
}

// Split divides cells into those to run on a backend and the report of the rest.
func Split(cells []Cell, kinds []pg.Kind, dtypes []tensor.DType) (run []Cell, r GridReport) {
	for _, c := range cells {
		if why := c.Skip(kinds, dtypes); why != "" {
			r.skip(why, 1)
			continue
		}
		run = append(run, c)
	}
	r.Ran = len(run)
	return run, r
}
