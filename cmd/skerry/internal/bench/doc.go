// Package bench measures Skerry, and its peers beside it in the same run.
//
// A [Bench] is a named set of rows. For each set of parameters it pits
// [Contestant]s against each other: one sample of each in turn, round after
// round, so that what else the machine does hits all of them alike. A [Row]
// has the median and the 99th percentile of one contestant's samples.
//
// Nothing here passes or fails by time. Figures are printed; docs/bench keeps
// those that a page speaks of, with machine, commit and command.
package bench
