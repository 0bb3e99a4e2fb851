//go:build !race

package cluster

// raceDetector says that this is no build for the race detector; see race.go.
const raceDetector = false
