// Package mix hashes numbers into bytes that stand for parameters and reductions in simulated
// worlds. A seed's run depends on these values: they must not change.
package mix

// Of hashes numbers, in their order: FNV-1a over whole numbers, with a shift that spreads what
// small numbers differ in.
func Of(ns ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, n := range ns {
		h = (h ^ n) * 1099511628211
		h ^= h >> 29
	}
	return h
}
