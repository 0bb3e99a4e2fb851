// Package nccl will hold the NCCL backend: libnccl.so.2 and libcuda.so.1 opened
// at run time, so that the module builds, tests and runs with no CUDA anywhere.
//
// This is the contract; there is no implementation yet, and the registry does
// not know the name "nccl".
//
// # Contract
//
// Communicators are non-blocking; every wait has a deadline; Abort may be
// called from any goroutine, returns within a bound and is never mixed with
// destroy. Functions that a library version lacks are gated, and the error
// names the version needed and the one found. A missing library is
// ErrUnavailable with what was looked for where. The unique id travels through
// the prefixed store of pg.Config. The group's semantics are those of package
// pg, but for bit-exactness, from which NCCL is exempt.
//
// # Drivers
//
// [Driver] is all that the backend needs of CUDA. One implementation will load
// libcuda at run time, and another, under the build tags "cuda" and "cgo",
// will use gorgonia.org/cu so that programs that use it share contexts, streams
// and memory with us.
package nccl
