//go:build race

package pg_test

const raceEnabled = true
