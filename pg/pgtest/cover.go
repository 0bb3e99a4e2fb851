package pgtest

import (
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Cover is how much of the product of rows, sizes and worlds a grid has. A row
// is a verb with a dtype and a reduce op.
//
// The whole product says the same thing many times: which kernel folds is the
// business of dtype, op and length; which path a message takes is that of verb,
// size and world; and neither knows of the other. So a covering design meets
// every pair that can matter and leaves the rest.
type Cover int

// What a grid covers.
const (
	// CoverAll is the whole product.
	CoverAll Cover = iota

	// CoverPairs has each row once with each size, in worlds that take turns as in
	// a Latin square: so each row is also met in as many worlds as there are
	// sizes, and each verb with each size in each world.
	CoverPairs

	// CoverVerbs has each verb once with each size in each world, with dtypes and
	// ops that take turns.
	CoverVerbs
)

// row is a verb with a dtype and a reduce op.
type row struct {
	verb  gridVerb
	index int // among all rows
	turn  int // among the rows of its verb that make sense; -1 if it makes none
	turns int // how many those are

	dtype  tensor.DType
	reduce tensor.ReduceOp
}

// rows lists them, those too that make no sense.
func rows() []row {
	var all []row
	for _, v := range verbs() {
		first, turn := len(all), 0
		for _, d := range tensor.DTypes() {
			for _, op := range tensor.ReduceOps() {
				if op != tensor.Sum && !v.reduces {
					continue
				}
				r := row{verb: v, index: len(all), turn: -1, dtype: d, reduce: op}
				if (Cell{Verb: v.name, DType: d, Reduce: op, World: v.least}).Skip(pg.Kinds(), tensor.DTypes()) == "" {
					r.turn = turn
					turn++
				}
				all = append(all, r)
			}
		}
		for i := first; i < len(all); i++ {
			all[i].turns = turn
		}
	}
	return all
}

// place is where a cell is in the grid: its size and world by index.
type place struct{ size, world, worlds int }

// has tells whether a grid of this design has the cell of a row at a place.
func (c Cover) has(r row, p place) bool {
	switch c {
	case CoverPairs:
		return p.world == (r.index+p.size)%p.worlds
	case CoverVerbs:
		// Seven has no factor in common with the number of rows of any verb, so the
		// turn is another one from world to world and from size to size.
		return r.turn == 7*(p.size*p.worlds+p.world)%r.turns
	}
	return true
}
