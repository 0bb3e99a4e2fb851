package invariant

import "math/rand/v2"

// Sometimes is true in percent of its calls, at random, where Enabled; else
// never. Both answers must be right: it may only choose between a usual path
// and a rare one.
func Sometimes(percent int) bool {
	return Enabled && rand.IntN(100) < percent
}
