package trace_test

import (
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/trace"
)

// Three ranks have dumped: one of them is a collective behind.
func ExampleAnalyse() {
	barrier := func(place uint64, state pg.TraceState) pg.TraceEntry {
		return pg.TraceEntry{Number: place, Place: place, Cluster: "c", QuorumID: 7, Kind: "barrier", State: state}
	}
	var dumps []pg.TraceDump
	for rank := range 3 {
		d := pg.TraceDump{
			Version: pg.TraceVersion, Group: "dp", Cluster: "c", QuorumID: 7,
			Rank: rank, ReplicaIDs: []string{"a", "b", "c"},
			Entries: []pg.TraceEntry{barrier(1, pg.TraceDone)},
		}
		if rank != 1 {
			d.Entries = append(d.Entries, barrier(2, pg.TraceStarted))
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
