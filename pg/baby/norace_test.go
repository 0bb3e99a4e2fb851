//go:build !race

package baby

const raceEnabled = false
