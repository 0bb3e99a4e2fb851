package sampler

import (
	"math"
	"math/rand/v2"
)

// rounds is how often order mixes. Four make a pseudo-random permutation of halves
// that are not tiny (Luby and Rackoff 1988); eight pass the test of all orders of four.
const rounds = 8

// order is a permutation of [0, n) that is computed, not stored: a cursor can stand
// anywhere in it at no cost, and no rank needs memory for it. Safe for concurrent use.
//
// It is a Feistel network over pairs (left, right) with left < a and right < b, whose
// round function is added modulo a and b in turn, so that a*b need not be a power of
// two. Pairs beyond n are walked on from until one lies below it; a*b exceeds n by
// less than a, so few are. Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
// 2002, generalized Feistel and cycle walking.
type order struct {
	n, a, b uint64
	keys    [rounds]uint64
}

// newOrder is the order of one epoch; without shuffle it is that of the dataset.
func newOrder(n int, shuffle bool, seed uint64, epoch int64) order {
	o := order{n: uint64(n)}
	if !shuffle || n < 2 {
		return o
	}
	o.a = uint64(math.Ceil(math.Sqrt(float64(n))))
	o.b = (o.n + o.a - 1) / o.a
	draw := rand.New(rand.NewPCG(seed, uint64(epoch)))
	for i := range o.keys {
		o.keys[i] = draw.Uint64()
	}
	return o
}

// at is the sample at position i of the order; i < n.
func (o *order) at(i int) int {
	if o.a == 0 {
		return i
	}
	v := o.pass(uint64(i))
	for v >= o.n {
		v = o.pass(v)
	}
	return int(v)
}

// pass permutes [0, a*b).
func (o *order) pass(v uint64) uint64 {
	left, right := v%o.a, v/o.a
	for i := 0; i < rounds; i += 2 {
		left = (left + mix(right, o.keys[i])%o.a) % o.a
		right = (right + mix(left, o.keys[i+1])%o.b) % o.b
	}
	return left + right*o.a
}

// mix is the finalizer of SplitMix64 over v and a key.
func mix(v, key uint64) uint64 {
	v = (v ^ key) * 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
