//go:build race

package lighthouse

// raceDetector says that this is a build for the race detector.
const raceDetector = true
