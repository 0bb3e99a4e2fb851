package cluster

import (
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// After a majority was lost, ids rise above those that the lost servers may have
// given and this one has not heard of.
func TestIdsRiseOverALostMajority(t *testing.T) {
	t.Parallel()
	s := newState()
	l := quorum.NewLedger("c", "j", 100)
	s.data.Jobs["j"] = &jobState{Ledger: l}
	r := recovering{s, 1_000}
	if _, err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for job, lowest := range map[string]int64{"j": 1_000, "one that only the lost had": 1_000} {
		if got := s.job(job, 500).HighestID; got < lowest {
			t.Errorf("%s: ids rise above %d, want %d", job, got, lowest)
		}
	}
	r.unixMs = 10 // a clock that went back takes nothing back
	if _, err := r.Snapshot(); err != nil || s.job("j", 0).HighestID != 1_000 {
		t.Errorf("ids rise above %d, %v", s.job("j", 0).HighestID, err)
	}
	if !slices.Equal(s.jobs(), []string{"j"}) {
		t.Errorf("jobs %v", s.jobs())
	}
}
