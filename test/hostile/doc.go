// Package hostile throws bytes at every port of running lighthouse servers, and
// looks that nothing panics, that nothing grows, and that a job which asks beside
// it is answered:
//
//	go test ./test/hostile                      # 5 s
//	make fuzz-ports                             # 10 min
//
// TestStrangers attacks what a replica has beside its manager (store, donor, data
// plane) as somebody would who has no proof, and looks that it costs next to nothing
// and keeps no member out:
//
//	go test ./test/hostile -run TestStrangers -v   # a minute
//
// The bytes of the first are random ones, such that begin as a protocol of the port does, and
// messages of that protocol with bytes changed.
package hostile
