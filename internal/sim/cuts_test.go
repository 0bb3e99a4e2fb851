package sim

import "testing"

// TestCuts runs worlds in which links fail, and nothing else: those who reach each
// other go on.
func TestCuts(t *testing.T) {
	t.Parallel()
	n := max(*seeds/5, 1) // they last longer than those of TestSeeds
	if testing.Short() {
		n = min(n, 2)
	}
	var sum Result
	failed := 0
	for s := *first; s < *first+n; s++ {
		r := RunCuts(s, Settings{})
		if r.Err != nil {
			t.Errorf("seed %d: %v", s, r.Err)
			if failed++; failed == 4 {
				break
			}
		}
		sum.Faults += r.Faults
		sum.Quorums += r.Quorums
		sum.Commits += r.Commits
		for i := range r.Gaps {
			sum.Gaps[i] = max(sum.Gaps[i], r.Gaps[i])
		}
	}
	if sum.Commits == 0 || sum.Faults == 0 {
		t.Errorf("%+v: the simulation saw nothing", sum)
	}
	t.Logf("%d seeds: %d cuts, %d quorums, %d commits, longest gap %v after a change and %v at rest",
		n, sum.Faults, sum.Quorums, sum.Commits, sum.Gaps[0], sum.Gaps[1])
}
