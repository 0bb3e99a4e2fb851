// Command libskerry is Skerry as a shared library for programs that are not Go's: process
// groups, their operations and rendezvous stores behind the functions of skerry.h, which
// package internal/capi is, but for C. The Python package in python/ is written against it.
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o libskerry.so ./cmd/libskerry
//
// It is the only package that needs a C compiler: without cgo it is an empty program. Nothing
// calls back into C, and no function panics into it.
package main

// main is never run: a shared library has none, and the linker wants one.
func main() {}
