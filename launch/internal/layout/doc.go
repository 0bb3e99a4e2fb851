// Package layout says which replicas a launcher starts, and what each of their ranks finds in
// its environment. It is pure.
//
// The replicas of a job are numbered from 0, and dealt out to its N launchers in turn: replica i
// belongs to node i mod N. So each launcher knows its own of any number without a word to the
// others:
//
//   - for a number that is wanted, the shares of all nodes add up to it, and differ by one at most;
//   - the replicas of all nodes are those from 0 up to the number, each once;
//   - a replica stays the same node's when another number is wanted: of fewer the highest go.
//
// It holds only where all launchers deal in the same way: all of a job are of one build.
package layout
