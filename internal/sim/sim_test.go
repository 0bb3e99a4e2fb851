package sim

import (
	"flag"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 1000, "how many seeds TestSeeds runs")
	first = flag.Uint64("first", 1, "the first seed of TestSeeds")
	seed  = flag.Uint64("seed", 1, "the seed of TestSeed")
)

// TestSeed repeats one seed.
func TestSeed(t *testing.T) {
	r, err := Run(*seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}

// TestSeeds runs many worlds through faults and after them: C1, C5, C6, Q1 to
// Q5, Q7 while faults happen, Q6 when they are over.
func TestSeeds(t *testing.T) {
	t.Parallel()
	var sum Result
	begun := time.Now()
	failed := 0
	for s := *first; s < *first+*seeds; s++ {
		r, err := Run(s)
		if err != nil {
			t.Errorf("seed %d: %v", s, err)
			if failed++; failed == 3 {
				break
			}
		}
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
	t.Logf("%d seeds in %v: %d quorums, %d commits, %d crashes, %d steps forwarded, %d discarded, recovery at most %v",
		*seeds, time.Since(begun).Round(time.Millisecond), sum.Quorums, sum.Commits, sum.Crashes,
		sum.Forwarded, sum.Discarded, sum.Recovery)
}

// TestSameSeedSameRun pins that a seed repeats.
func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	for s := range uint64(5) {
		a, errA := Run(s)
		b, errB := Run(s)
		if a != b || (errA == nil) != (errB == nil) {
			t.Errorf("seed %d: %+v %v, then %+v %v", s, a, errA, b, errB)
		}
	}
}
