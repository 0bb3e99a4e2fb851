// Package scale measures what one edge and one message of a full mesh cost, for the arithmetic of
// large jobs. It has benchmarks only:
//
//	go test ./test/scale -run '^$' -bench . -benchtime 20x
package scale
