//go:build race

package baby

const raceEnabled = true
