// Package watch is "skerry status --watch": what a lighthouse knows, drawn in place on a
// terminal, or told line by line elsewhere.
//
// Run has three goroutines, which end before it returns: one asks the lighthouse, one
// reads keys, and Run's own owns the picture.
package watch
