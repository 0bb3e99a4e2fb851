package checker

// Largest is the size of the largest set of those of all that fit, each of which reaches
// each other. It tries all sets, so all are few.
func Largest[T any](all []T, fits func(T) bool, reaches func(a, b T) bool) int {
	best := 0
	var grow func(in, rest []T)
	grow = func(in, rest []T) {
		best = max(best, len(in))
		for i, m := range rest {
			may := fits(m)
			for _, o := range in {
				may = may && reaches(m, o)
			}
			if may {
				grow(append(in[:len(in):len(in)], m), rest[i+1:])
			}
		}
	}
	grow(nil, all)
	return best
}
