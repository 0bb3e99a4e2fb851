package ddp

import (
	"hash/crc32"
	"slices"

	"github.com/skerry-ft/skerry/tensor"
)

// extent is a gradient as layouts see it.
type extent struct {
	dtype    tensor.DType
	elements int
}

// limits are the sizes of buckets, in bytes.
type limits struct{ bucket, first int }

// span is a bucket: which gradients it holds, in their order, and where it lies in
// the memory of its dtype, in elements.
type span struct {
	dtype    tensor.DType
	params   []int
	from, to int
}

// place says where a gradient lies: in which bucket, and where in it, in elements.
type place struct{ bucket, from, to int }

// lay deals gradients out to buckets, in order: a bucket of each dtype is open, and is
// closed by the first gradient that does not fit. It follows from its arguments alone.
func lay(order []int, extents []extent, l limits) (spans []span, places []place) {
	places = make([]place, len(extents))
	open := make(map[tensor.DType]int)
	for _, i := range order {
		e := extents[i]
		at, ok := open[e.dtype]
		limit := l.bucket
		if at == 0 {
			limit = l.first
		}
		if !ok || (spans[at].to+e.elements)*e.dtype.Size() > limit {
			at = len(spans)
			open[e.dtype] = at
			spans = append(spans, span{dtype: e.dtype})
		}
		s := &spans[at]
		places[i] = place{bucket: at, from: s.to, to: s.to + e.elements}
		s.params = append(s.params, i)
		s.to += e.elements
	}
	ends := make(map[tensor.DType]int)
	for b := range spans {
		s := &spans[b]
		s.from, s.to = ends[s.dtype], ends[s.dtype]+s.to
		ends[s.dtype] = s.to
	}
	return spans, places
}

// reversed is the order of the first buckets: the last layer's gradients come first.
func reversed(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// fingerprint sums up all that a layout follows from, but the order.
func fingerprint(extents []extent, l limits) uint32 {
	sum := crc32.NewIEEE()
	word := func(v int) {
		var b [8]byte
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		sum.Write(b[:])
	}
	word(l.bucket)
	word(l.first)
	for _, e := range extents {
		word(int(e.dtype))
		word(e.elements)
	}
	return sum.Sum32()
}

// permutes tells whether order names each of len(seen) gradients once. It uses seen.
func permutes(order []int32, seen []bool) bool {
	clear(seen)
	for _, i := range order {
		if i < 0 || int(i) >= len(seen) || seen[i] {
			return false
		}
		seen[i] = true
	}
	return len(order) == len(seen)
}

// sameOrder tells whether two orders are equal.
func sameOrder(a []int32, b []int) bool {
	return slices.EqualFunc(a, b, func(x int32, y int) bool { return int(x) == y })
}
