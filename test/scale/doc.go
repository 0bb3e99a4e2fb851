// Package scale measures what one edge, one message, one ballot and one member cost, which
// docs/SCALE.md and internal/sim/many multiply. It has benchmarks only:
//
//	go test ./test/scale -run '^$' -bench . -benchtime 20x
package scale
