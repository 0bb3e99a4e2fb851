package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

var (
	seeds = flag.Uint64("seeds", 20, "how many seeds TestSeeds runs; skerry sim runs thousands")
	first = flag.Uint64("first", 1, "the first seed of TestSeeds")
)

// TestSeeds runs many worlds through faults and after them.
func TestSeeds(t *testing.T) {
	t.Parallel()
	seeds := *seeds
	if testing.Short() {
		seeds = min(seeds, 8)
	}
	var sum Result
	begun := time.Now()
	failed := 0
	for s := *first; s < *first+seeds; s++ {
		r := Run(s, Settings{})
		if r.Err != nil {
			t.Errorf("seed %d: %v", s, r.Err)
			if failed++; failed == 8 {
				break
			}
		}
		if r.Err == nil && (r.Steps < MinSteps || r.Faults < MinFaults) {
			t.Errorf("seed %d: %d steps, %d faults", s, r.Steps, r.Faults)
		}
		sum.Steps += r.Steps
		sum.Quorums += r.Quorums
		sum.Commits += r.Commits
		sum.Crashes += r.Crashes
		sum.Forwarded += r.Forwarded
		sum.Discarded += r.Discarded
		sum.Recovery = max(sum.Recovery, r.Recovery)
	}
	if sum.Commits == 0 || sum.Forwarded == 0 || sum.Discarded == 0 || sum.Crashes == 0 {
		t.Errorf("%+v: the simulation saw nothing", sum)
	}
	t.Logf("%d seeds in %v: %d steps, %d quorums, %d commits, %d crashes, %d steps forwarded, %d discarded, recovery at most %v",
		seeds, time.Since(begun).Round(time.Millisecond), sum.Steps, sum.Quorums, sum.Commits, sum.Crashes,
		sum.Forwarded, sum.Discarded, sum.Recovery)
}

// TestSeedsThatFailed runs again the worlds in which a rule, or a checker, was once
// wrong, and which TestSeeds would not come by.
func TestSeedsThatFailed(t *testing.T) {
	t.Parallel()
	type seed struct {
		seed uint64
		what string
	}
	for _, c := range testkit.Some([]seed{
		{4029, "the torn heal from nobody but a holder that drains"},
		{100585, "two whose states differ heal from each other"},
		{102930, "a quorum that fell while leadership was checked stands again"},
		{302811, "the word that a link is cut outlives the loss of its end"},
		{311158, "one rank's odd reduction makes its replica's discard no loss"},
		{322999, "a replica that joined anew stands where an older word of it was settled to"},
		{20677, "a replica that died while the lighthouse heard none of them"},
		{501230, "two kept apart meet again, for a member wants no newcomers"},
		{510953, "what was said of a replica before it was lost, and came back"},
		{412821, "a torn replica, of which one rank holds the highest position"},
		{2029957, "a replica that was stuck for it did not join, and then joined"},
		{2029764, "one that comes back has refused what a leader before has settled"},
		{2009454, "one that has healed asks in vain, and hears nothing of the lighthouse any more"},
		{2048480, "the leader's clock jumps, and it waits as much longer for those who may join"},
		{700712, "a link broke, as is said while the next quorum is written; its end is lost, and comes back"},
	}, 5) {
		if r := Run(c.seed, Settings{}); r.Err != nil {
			t.Errorf("seed %d (%s): %v", c.seed, c.what, r.Err)
		}
	}
	for _, c := range []struct {
		cause string
		seed  uint64
		what  string
	}{
		{"heal", 33, "the others wait for the join of one that is refused"},
		{"odd", 205, "one that was refused for long pauses longest when it is let in"},
	} {
		if r := Run(c.seed, Settings{Cause: c.cause}); r.Err != nil {
			t.Errorf("cause %s, seed %d (%s): %v", c.cause, c.seed, c.what, r.Err)
		}
	}
}

// Q6 is judged by the world: one whose lighthouse never comes back makes no
// progress.
func TestStuckWorldIsReported(t *testing.T) {
	t.Parallel()
	o := draw(3)
	o.Faults = nil
	w := newWorld(o, Mutant{}, false, false)
	w.after(o.Faulty/2, func() {
		for _, s := range w.servers {
			s.stop()
			s.life++
			s.start() // it is up, and its timers belong to another life
			s.life++
		}
		for _, m := range w.members {
			m.die(true)
			w.reborn(m, 0)
		}
	})
	if r := w.runAll(); r.Rule != "Q6" {
		t.Errorf("broken: %q (%v), want Q6", r.Rule, r.Err)
	}
}
