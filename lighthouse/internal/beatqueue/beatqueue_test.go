package beatqueue

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// Of two beats that wait the newer counts, and each sender waits once.
func TestBeatsAreGathered(t *testing.T) {
	t.Parallel()
	q := New[string]()
	var x, y Place
	q.Add("x", &x, quorum.Beat{Progress: 1})
	q.Add("y", &y, quorum.Beat{Progress: 2})
	q.Add("x", &x, quorum.Beat{Progress: 3})
	select {
	case <-q.Ready():
	default:
		t.Error("none was told that beats wait")
	}
	got := q.Take()
	if len(got) != 2 || got[0].From != "x" || got[0].Beat.Progress != 3 || got[1].From != "y" || got[1].Beat.Progress != 2 {
		t.Errorf("got %+v, want the third and the second", got)
	}
	if again := q.Take(); again != nil {
		t.Errorf("taken again: %v", again)
	}
	q.Add("x", &x, quorum.Beat{})
	if len(q.ready) != 1 {
		t.Error("none was told of the next beat")
	}
}
