package pgtest

import (
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// TestCoverPairs: the design meets every row with every size and every world,
// and every verb with every size in every world; each row and size once.
func TestCoverPairs(t *testing.T) {
	type rowID struct {
		verb   string
		dtype  tensor.DType
		reduce tensor.ReduceOp
	}
	type pair struct {
		row rowID
		n   int
	}
	type place struct {
		verb         string
		bytes, world int
	}
	sizes, worlds, places := map[pair]int{}, map[pair]bool{}, map[place]bool{}
	grid := Grid{Cover: CoverPairs}
	for _, world := range grid.worlds() {
		cells, _ := Split(grid.Cells(world), pg.Kinds(), tensor.DTypes())
		for _, c := range cells {
			r := rowID{c.Verb, c.DType, c.Reduce}
			sizes[pair{r, c.Bytes}]++
			worlds[pair{r, c.World}] = true
			places[place{c.Verb, c.Bytes, c.World}] = true
		}
	}
	for _, r := range rows() {
		if r.turn < 0 {
			continue
		}
		id := rowID{r.verb.name, r.dtype, r.reduce}
		for _, bytes := range GridSizes() {
			if got, want := sizes[pair{id, bytes}], 1; got != want && r.verb.least == 1 {
				t.Errorf("%v meets %d bytes %d times, want %d", id, bytes, got, want)
			}
		}
		for _, world := range grid.worlds()[r.verb.least-1:] {
			if !worlds[pair{id, world}] {
				t.Errorf("%v never meets a world of %d", id, world)
			}
		}
	}
	everyPlace(t, func(verb string, bytes, world int) bool { return places[place{verb, bytes, world}] })
}

// TestCoverVerbs: each verb with each size in each world once, and over them
// each dtype and each op.
func TestCoverVerbs(t *testing.T) {
	type place struct {
		verb         string
		bytes, world int
	}
	type part struct {
		verb   string
		dtype  tensor.DType
		reduce tensor.ReduceOp
	}
	places, parts := map[place]int{}, map[part]bool{}
	grid := Grid{Cover: CoverVerbs}
	for _, world := range grid.worlds() {
		for _, c := range grid.Cells(world) {
			places[place{c.Verb, c.Bytes, c.World}]++
			parts[part{c.Verb, c.DType, c.Reduce}] = true
		}
	}
	everyPlace(t, func(verb string, bytes, world int) bool { return places[place{verb, bytes, world}] == 1 })
	for _, r := range rows() {
		if !r.verb.reduces && !parts[part{r.verb.name, r.dtype, r.reduce}] {
			t.Errorf("%s never meets %v", r.verb.name, r.dtype)
		}
	}
}

func everyPlace(t *testing.T, met func(verb string, bytes, world int) bool) {
	t.Helper()
	for _, v := range verbs() {
		for _, bytes := range GridSizes() {
			for world := v.least; world <= 8; world++ {
				if !met(v.name, bytes, world) {
					t.Errorf("%s of %d bytes in a world of %d is not met as it should", v.name, bytes, world)
				}
			}
		}
	}
}
