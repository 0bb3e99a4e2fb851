package sim

import "testing"

// TestCauses runs the worlds of each cause: whatever one suffers or does, the others
// go on (L1), and in the end all come together again.
func TestCauses(t *testing.T) {
	n := max(*seeds/10, 1) // they last ten times as long as those of TestSeeds
	for _, c := range Causes() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var sum Result
			for s := *first; s < *first+n && !t.Failed(); s++ {
				r := Run(s, Settings{Cause: c.Name})
				if r.Err != nil {
					t.Errorf("seed %d: %v", s, r.Err)
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
			t.Logf("%d seeds, %s: %d quorums, %d commits, longest gap %v soon after and %v at rest",
				n, c.Tell, sum.Quorums, sum.Commits, sum.Gaps[0], sum.Gaps[1])
		})
	}
}
