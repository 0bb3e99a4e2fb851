package lighthouse

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// Of two beats that wait the newer counts, and each session waits once.
func TestBeatsAreGathered(t *testing.T) {
	t.Parallel()
	b := beats{ready: make(chan struct{}, 1)}
	x, y := &session{id: "x"}, &session{id: "y"}
	b.add(x, quorum.Beat{Progress: 1})
	b.add(y, quorum.Beat{Progress: 2})
	b.add(x, quorum.Beat{Progress: 3})
	select {
	case <-b.ready:
	default:
		t.Error("nobody was told that beats wait")
	}
	want := []heard{{x, quorum.Beat{Progress: 3}}, {y, quorum.Beat{Progress: 2}}}
	got := b.take()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
	if again := b.take(); again != nil {
		t.Errorf("taken again: %v", again)
	}
	b.add(x, quorum.Beat{})
	if len(b.ready) != 1 {
		t.Error("nobody was told of the next beat")
	}
}
