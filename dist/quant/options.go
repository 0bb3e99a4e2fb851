package quant

import (
	"cmp"
	"fmt"

	"github.com/skerry-ft/skerry/internal/problems"
)

// Format is how an element is written in eight bits.
type Format uint8

// The formats.
const (
	Int8 Format = iota // steps of equal size: 127 of them up to the largest magnitude of the row
	E4M3               // a float of 4 exponent and 3 fraction bits, up to 448, without infinities
	formats
)

// String is the format's name: "int8".
func (f Format) String() string {
	if f >= formats {
		return fmt.Sprintf("format %d", uint8(f))
	}
	return [...]string{"int8", "e4m3"}[f]
}

// What Options.Row is, and may be.
const (
	DefaultRow = 512
	maxRow     = 1 << 20
)

// scaleBytes is what a row's scale takes.
const scaleBytes = 4

// Options say how elements are written. They must be the same on all ranks. The zero
// value is Int8 in rows of DefaultRow.
type Options struct {
	Format Format

	// Row is how many elements share a scale, 1 to 1,048,576; 0 means DefaultRow. A scale
	// takes 4/Row of a byte for each element. Too low costs bytes; too high lets one large
	// element take the precision of many small ones.
	Row int
}

// Validate returns all problems, joined.
func (o Options) Validate() error {
	var bad problems.List
	bad.Want(o.Format < formats, "Format", o.Format, "%v or %v", Int8, E4M3)
	problems.Within(&bad, "Row", o.Row, 0, maxRow)
	return bad.Err()
}

// RowElements is Row, or what stands for 0.
func (o Options) RowElements() int { return cmp.Or(o.Row, DefaultRow) }

// Sent is what a rank gives to ops: how many, and the bytes of their inputs.
type Sent struct {
	Ops   int
	Bytes int64
}

// Add is both.
func (s Sent) Add(t Sent) Sent { return Sent{s.Ops + t.Ops, s.Bytes + t.Bytes} }

// World is the size of what is reduced, and among how many.
type World struct {
	Elements int
	Ranks    int // that take part, 1 or more
}

// Sent is what one AllReduce gives to its ops, on each rank.
func (o Options) Sent(w World) Sent {
	if w.Elements == 0 {
		return Sent{}
	}
	l := o.layout(w)
	return Sent{Ops: 2, Bytes: int64(w.Ranks+1) * int64(l.slot)}
}

// layout is how elements are dealt out to ranks.
type layout struct {
	row  int // elements of a row
	per  int // rows that a rank reduces
	slot int // bytes of per rows: their scales, and then their codes
}

func (o Options) layout(w World) layout {
	l := layout{row: o.RowElements()}
	rows := (w.Elements + l.row - 1) / l.row
	l.per = (rows + w.Ranks - 1) / w.Ranks
	l.slot = l.per * (l.row + scaleBytes)
	return l
}
