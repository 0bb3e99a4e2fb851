// Package keeper is a second process of this binary that outlives the launcher for a moment:
// when the launcher dies, of whatever, the keeper kills what its ranks have started.
//
// Nothing that the launcher does can see to that, for SIGKILL gives it no time; and the parent
// death signal that ranks have is not inherited. The keeper holds a pipe of which the
// launcher has the other end, and through which it is told the sessions of all ranks. At the
// end of the pipe it kills all that are in those, and all that carry the launcher's mark,
// until none is left; then it ends.
//
// A Keeper starts its process again should that die. It has one goroutine, of Run.
package keeper
