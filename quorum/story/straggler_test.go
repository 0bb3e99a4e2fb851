package story_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// A straggler is slower than the median of the members by half of it, and by 20 ms at least; one
// that is no member, or does not tell, is no measure.
func TestStragglesAbove(t *testing.T) {
	t.Parallel()
	of := func(own ...time.Duration) (all []quorum.ReplicaStatus) {
		for _, d := range own {
			all = append(all, quorum.ReplicaStatus{Member: true, Beat: quorum.Beat{Own: d}})
		}
		return all
	}
	spare := quorum.ReplicaStatus{Beat: quorum.Beat{Own: time.Hour}}
	for _, c := range []struct {
		name string
		all  []quorum.ReplicaStatus
		want time.Duration
	}{
		{"none tells", of(0, 0), 0},
		{"one alone", append(of(50*ms, 0), spare), 0},
		{"of two the faster one is the measure", of(500*ms, 100*ms), 150 * ms},
		{"the median of five", append(of(900*ms, 100*ms, 110*ms, 90*ms, 100*ms), spare), 150 * ms},
		{"small steps differ by more than they are", of(ms, 2*ms, ms), 21 * ms},
	} {
		if got := story.StragglesAbove(c.all); got != c.want {
			t.Errorf("%s: above %v, want %v", c.name, got, c.want)
		}
	}
}
