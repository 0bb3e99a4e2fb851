package worlds

import (
	"flag"
	"testing"
)

// knownBroken are the worlds that show what is known to be wrong, each with what it
// is about. They are left out of a run, except of one with -worlds.known, which runs
// nothing else. Who mends one takes its line out.
var knownBroken = map[string]string{
	"TestWorldResetBetweenRanksDuringAVote": "a prepared replica joins only when its promise has timed out (after correctness 16)",

	"TestWorldLoneTrainerHangsBetweenSteps": "a newcomer waits for ever to copy from a donor that hangs",
	"TestWorldHungRankComesBack":            "ranks of a replica are in other attempts after one hung",

	"TestWorldShrinkOnlyOfAMemberForAWhile": "a joiner that met ShrinkOnly once is never asked for again",
}

var onlyKnown = flag.Bool("worlds.known", false, "run the worlds of known findings, and no others")

// finding leaves the test out, or not.
func finding(t *testing.T) {
	t.Helper()
	what, known := knownBroken[t.Name()]
	switch {
	case known && !*onlyKnown:
		t.Skipf("known to fail: %s; -worlds.known runs it", what)
	case !known && *onlyKnown:
		t.Skip("not known to fail")
	}
}
