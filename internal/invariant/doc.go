// Package invariant switches costly checks and rare paths on where bugs are
// hunted: under the race detector and with -tags invariants. Checks that cost
// nothing do not ask; they are always on.
//
//	if invariant.Enabled {
//		checkEveryMember(q) // O(n²)
//	}
//	if invariant.Sometimes(5) {
//		shrinkBuffer() // a path that production takes once a week
//	}
//
// All of it is safe for concurrent use. With Enabled false the compiler drops
// the guarded code.
package invariant
