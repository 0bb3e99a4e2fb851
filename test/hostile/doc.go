// Package hostile throws bytes at every port of running lighthouse servers, and
// looks that nothing panics, that nothing grows, and that a job which asks beside
// it is answered:
//
//	go test ./test/hostile                      # 5 s
//	make fuzz-ports                             # 10 min
//
// Bytes are random ones, such that begin as a protocol of the port does, and
// messages of that protocol with bytes changed.
package hostile
