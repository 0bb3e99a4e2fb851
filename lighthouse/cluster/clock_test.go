package cluster

import (
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// The wall clock of the leader jumps, both ways: it only says where the ids of a
// new job begin, and they rise whatever it says. (How long something took is
// measured by the monotonic clock, which does not jump.)
func TestClockJumpsMakeNoIDFall(t *testing.T) {
	t.Parallel()
	const today, year = int64(1_764_000_000_000), int64(365 * 86_400_000)
	s := newState()
	if err := apply(t, s, Command{Kind: commandFound, Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	forms := func(job string, unixMs int64) {
		t.Helper()
		l := s.job(job, unixMs)
		f := quorum.Formed{Quorum: quorum.Quorum{Cluster: "c", Job: job, ID: l.HighestID + 1, Members: []quorum.Member{{ReplicaID: "a"}}}}
		if err := apply(t, s, Command{Kind: CommandFormed, Job: job, UnixMs: unixMs, Formed: &f}); err != nil {
			t.Fatalf("at %d: %v", unixMs, err)
		}
		if l.HighestID+1 <= last {
			t.Errorf("at %d job %s has quorum %d, after %d", unixMs, job, l.HighestID+1, last)
		}
		last = l.HighestID + 1
		if err := apply(t, s, Command{Kind: CommandForget, Job: job}); err != nil {
			t.Fatal(err)
		}
		s = throughSnapshot(t, s) // and it can be restored
	}
	for _, unixMs := range []int64{today, today + 5*year, today, today - 5*year, 0, -year, today} {
		forms("j", unixMs)
	}
	// Hundreds of thousands of years ahead: refused, and the state stays good.
	err := apply(t, s, Command{Kind: commandRise, UnixMs: 1 << 60})
	if err == nil || !strings.Contains(err.Error(), "unix_ms = 1152921504606846976, want at most") {
		t.Errorf("%v", err)
	}
	forms("j", today)
}
