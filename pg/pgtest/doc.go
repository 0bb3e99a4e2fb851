// Package pgtest is the contract of pg.Backend as a test suite, and an
// in-memory backend that keeps it.
//
// Every backend and every decorator runs the suite:
//
//	func TestConformance(t *testing.T) {
//		pgtest.Run(t, func(t *testing.T) pg.Backend { return tcp.New(tcp.Options{}) })
//	}
//
// Each case says in its comment which rule it checks. The cases run one after
// the other, because one of them counts goroutines and descriptors; so call Run
// from a test that is not parallel. Nothing sleeps: what is awaited has a
// bound, and a case that reaches it dumps all goroutines.
//
// [Memory] is the honest fake: package manager and the decorators are tested
// on it. It keeps every rule in this file, has no sockets, and starts no
// goroutine. [World] builds groups of any backend for tests of one's own.
package pgtest
