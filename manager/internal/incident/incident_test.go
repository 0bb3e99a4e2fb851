package incident_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager/internal/incident"
	"github.com/skerry-ft/skerry/quorum"
)

// An incident is told once, by the quorum that fell first, with all that came to nothing
// until a step counted.
func TestIncident(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	var i incident.Incident
	if got := i.Fall(at(0)); got != (quorum.Fall{}) {
		t.Errorf("no fall: %+v", got)
	}
	if c, open := i.Ended(at(0), true); open {
		t.Errorf("no fall: %+v, %v", c, open)
	}
	i.Fell(at(10), 7, "link cut")
	i.Ended(at(12), false)
	i.Fell(at(15), 8, "")
	i.Ended(at(20), false)
	if got, want := i.Fall(at(17)), (quorum.Fall{Ago: 2 * time.Millisecond}); got != want {
		t.Errorf("the last fall: %+v, want %+v", got, want)
	}
	want := incident.Cost{QuorumID: 7, Discarded: 2, Took: 11 * time.Millisecond}
	if c, open := i.Ended(at(21), true); !open || c != want {
		t.Errorf("%+v, %v; want %+v", c, open, want)
	}
	if c, open := i.Ended(at(22), true); open {
		t.Errorf("told twice: %+v", c)
	}
	// An attempt that is thrown away brings its quorum down with it.
	i.Ended(at(29), false)
	i.Fell(at(30), 9, "own step")
	if c, open := i.Ended(at(31), true); !open || c.Discarded != 1 || c.QuorumID != 9 {
		t.Errorf("%+v, %v; want one discarded", c, open)
	}
	if got, want := i.Fall(at(32)), (quorum.Fall{Why: "own step", Ago: 2 * time.Millisecond}); got != want {
		t.Errorf("the last fall: %+v, want %+v", got, want)
	}
}
