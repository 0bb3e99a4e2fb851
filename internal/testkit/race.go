//go:build race

package testkit

// RaceEnabled says whether the race detector is in this build. It allocates, drops pooled
// memory on purpose, and is slow: what a test counts then says nothing of the code.
const RaceEnabled = true
