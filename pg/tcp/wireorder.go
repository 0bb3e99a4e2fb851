//go:build !race

package tcp

// encrypted and decrypting are for the race detector, see wireorder_race.go.
func encrypted() {}

func decrypting() {}
