package worlds

import (
	"flag"
	"testing"
)

// knownBroken are the worlds that show what is known to be wrong, each with what it
// is about. They are left out of a run, except of one with -worlds.known, which runs
// nothing else. Who mends one takes its line out.
var knownBroken = map[string]string{

	"TestWorldBlipInFrontOfTheLighthouse":   "all are lost when the lighthouse is out of reach (correctness 9)",
	"TestWorldCollectiveWithoutAQuorumEnds": "a collective waits for ever (correctness 15)",
	"TestWorldResetBetweenRanksDuringAVote": "a vote is not repeated (correctness 16)",
	"TestWorldNewcomerWithOtherCollectives": "the odd one is never refused (liveness 5)",
	"TestWorldRankOneDies":                  "the death of a rank above 0 is not told (liveness 6)",
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
