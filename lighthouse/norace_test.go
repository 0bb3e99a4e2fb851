//go:build !race

package lighthouse

// raceDetector says that this is no build for the race detector.
const raceDetector = false
