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
	"TestWorldResetBetweenRanksDuringAVote": "a vote is not repeated (correctness 16)",
	"TestWorldNewcomerWithOtherCollectives": "the odd one is never refused (liveness 5)",

	"TestWorldShrinkOnlyOfAnOutsider":    "a joiner's ShrinkOnly keeps all joiners out for ever",
	"TestWorldShrinkOnlyEndsWithItsStep": "ShrinkOnly of one StartQuorum stays in the join",

	"TestOthersGoOn/a_trainer_hangs_between_steps":             "a hung trainer is never left out (correctness 1, liveness 3)",
	"TestOthersGoOn/a_trainer_hangs_in_the_forward_pass":       "a hung trainer is never left out (correctness 1, liveness 3)",
	"TestOthersGoOn/a_trainer_hangs_between_collectives":       "a hung trainer is never left out (correctness 1, liveness 3)",
	"TestOthersGoOn/a_trainer_hangs_before_its_ballot":         "a hung trainer is never left out (correctness 1, liveness 3)",
	"TestOthersGoOn/a_newcomer's_tensors_have_another_size":    "the odd one is never refused (liveness 5)",
	"TestOthersGoOn/a_newcomer_leaves_a_collective_out":        "the odd one is never refused (liveness 5)",
	"TestOthersGoOn/a_newcomer's_heals_fail":                   "a replica that cannot heal is never on probation",
	"TestOthersGoOn/newcomers_heal_for_three_times_StuckAfter": "survivors wait for a heal",
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
