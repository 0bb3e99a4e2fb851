// Package storetest is the conformance suite of [store.Store]. Every
// implementation calls [Run]; each case says the rule that it checks.
//
// A case gets its own store, and opens it as often as it likes: the handles
// are those of different processes as far as the implementation can have them.
// The cases run in parallel, use no fixed port and do not sleep.
package storetest
