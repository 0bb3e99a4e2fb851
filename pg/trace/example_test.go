package trace_test

import (
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/pg/trace"
)

// Three ranks have dumped: one of them is a collective behind.
func ExampleAnalyse() {
	barrier := func(place uint64, state trace.State) trace.Entry {
		return trace.Entry{Number: place, Place: place, Cluster: "c", QuorumID: 7, Kind: "barrier", State: state}
	}
	var dumps []trace.Dump
	for rank := range 3 {
		d := trace.Dump{
			Version: trace.Version, Group: "dp", Cluster: "c", QuorumID: 7,
			Rank: rank, ReplicaIDs: []string{"a", "b", "c"},
			Entries: []trace.Entry{barrier(1, trace.Done)},
		}
		if rank != 1 {
			d.Entries = append(d.Entries, barrier(2, trace.Started))
		}
		dumps = append(dumps, d)
	}
	for _, g := range trace.Analyse(dumps) {
		if err := g.WriteText(os.Stdout); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// group dp, quorum 7 of c, group rank 0: dumps of 3 of 3 ranks
	//   rank 0 (a): 2 collectives
	//   rank 1 (b): 1 collectives
	//   rank 2 (c): 2 collectives
	//   MISSING: collective 2, barrier: rank 1 (b) did not call it; ranks 0 (a), 2 (c) did
}
