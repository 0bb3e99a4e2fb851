//go:build race

package tcp

// raceEnabled: the race detector allocates.
const raceEnabled = true
