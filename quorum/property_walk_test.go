package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// The named tests of this package's property files check one invariant of
// PROTOCOL §7 each. Most look at the same random walks: members as the
// explorer models them, in worlds that are too large to be searched to their
// end. The checkers are the explorer's, outside the code under test. Each test
// also asserts that its rule was put to the test at all.

// walks are the results of all random walks, computed once per process.
type walks struct {
	failed map[string]string // by rule: the first violation, with its trace
	counts map[string]int
}

var theWalks = sync.OnceValue(func() *walks { return walkAll(walkSeeds()) })

func walkSeeds() uint64 {
	if *full {
		return 20_000
	}
	if testing.Short() {
		return 150
	}
	return 400
}

// walkAll runs all walks.
func walkAll(seeds uint64) *walks {
	out := &walks{failed: map[string]string{}, counts: map[string]int{}}
	for _, ranks := range []int{1, 2} {
		x, err := newExplorer(3, ranks, realMechanics(), mangle{})
		if err != nil {
			out.failed[ruleOf(err)] = err.Error()
			return out
		}
		for seed := range seeds / uint64(ranks) {
			out.walk(x, seed, ranks)
		}
		for k, n := range x.counts {
			out.counts[k] += n
		}
	}
	return out
}

// walk runs one random walk and keeps its violation.
func (o *walks) walk(x *explorer, seed uint64, ranks int) {
	rng := rand.New(rand.NewPCG(seed, uint64(ranks)))
	b := budget{
		Quorums: 30, Crashes: rng.IntN(4), Restarts: rng.IntN(4), Cuts: rng.IntN(6), Breaks: rng.IntN(8),
		Odds: rng.IntN(2), GiveUps: rng.IntN(5), Withdraws: rng.IntN(4), Leaders: rng.IntN(3),
		Unhealed: rng.IntN(3), Steps: 40,
	}
	fresh := func() *world {
		n := 2 + int(seed%2)
		return newWorld(n, ranks, explorerConfig(1+int(seed/3%2)), b)
	}
	w := fresh()
	var trace []move
	for range 150 {
		v := pick(rng, x.moves(w))
		trace = append(trace, v)
		if err := x.try(w, v); err != nil {
			o.keep(x, fresh, &violation{err, trace, false}, seed, ranks)
			return
		}
	}
	if err := x.fair(w); err != nil {
		o.keep(x, fresh, &violation{err, trace, true}, seed, ranks)
		return
	}
	o.counts["walks"]++
	o.counts["positions"] += len(w.Bytes)
	o.counts["commits"] += len(w.Committed)
}

// pick draws a move; faults and the passing of time come seldom, so that
// worlds get somewhere.
func pick(rng *rand.Rand, moves []move) move {
	total := 0
	for _, v := range moves {
		total += weightOf(v)
	}
	at := rng.IntN(total)
	for _, v := range moves {
		if at -= weightOf(v); at < 0 {
			return v
		}
	}
	panic("unreachable")
}

func weightOf(v move) int {
	switch v.Kind {
	case mvCrash, mvCut, mvLeader, mvRestart, mvWithdraw:
		return 1
	case mvTime, mvGiveUp, mvStep:
		return 2
	}
	return 12
}

func (o *walks) keep(x *explorer, fresh func() *world, v *violation, seed uint64, ranks int) {
	rule := ruleOf(v.Err)
	if _, ok := o.failed[rule]; ok {
		return
	}
	v = x.shorten(fresh, v)
	o.failed[rule] = fmt.Sprintf("seed %d, %d ranks: %s", seed, ranks, x.describe(fresh, v))
}

// check fails t for the walks' violations of one of the rules, and if what the
// rule speaks of did not occur.
func (o *walks) check(t *testing.T, rules, counts string) {
	t.Helper()
	for _, r := range strings.Fields(rules) {
		if v, ok := o.failed[r]; ok {
			t.Errorf("%s", v)
		}
	}
	for _, c := range strings.Split(counts, ",") {
		if c != "" && o.counts[c] == 0 && len(o.failed) == 0 {
			t.Errorf("no walk had %q: the test is empty", c)
		}
	}
}

// TestWalksHaveNoOtherFault fails for what no invariant names: a panic, or a
// well-behaved member that is refused.
func TestWalksHaveNoOtherFault(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "other none", "walks,commits")
}
