package training

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
)

// A replica goes and comes back; in between, and after it, nobody asks the
// lighthouse anything.
func TestTrainThroughARestart(t *testing.T) {
	t.Parallel()
	b := startLighthouse(t)
	one, two, three := start(t, b, "one", nil), start(t, b, "two", nil), start(t, b, "three", nil)
	reach(t, 10, one, two, three)
	joins := one.m.Stats().Joins
	reach(t, 50, one, two, three)
	if got := one.m.Stats().Joins; got != joins {
		t.Errorf("%d joins in 50 steady steps", got-joins)
	}
	_ = three.stop()
	reach(t, 20, one, two)
	again := start(t, b, "three", nil)
	reach(t, 20, again)
	agree(t, one, two, three, again)
	if again.m.Stats().Heals == 0 {
		t.Errorf("%+v; want a heal", again.m.Stats())
	}
	// It heals beside its first step, and takes part in the next round.
	testkit.Eventually(t, "three take part", func() bool { return one.m.NumParticipants() == 3 })
}

// The lighthouse is away for a while in the middle of a run, and comes back on
// its data: no quorum is formed because of it. (That no step waits for it is shown
// in virtual time, test/worlds.)
func TestLighthouseRestarts(t *testing.T) {
	t.Parallel()
	b := startLighthouse(t)
	one, two := start(t, b, "one", nil), start(t, b, "two", nil)
	reach(t, 10, one, two)
	id, joins := one.m.QuorumID(), one.m.Stats().Joins
	b.stop()
	time.Sleep(4 * time.Second)
	b.start()
	for _, tr := range []*trainer{one, two} {
		testkit.Eventually(t, tr.name+" is back in session", func() bool { return tr.m.Stats().Reconnects > 0 })
	}
	time.Sleep(2 * time.Second) // longer than the heartbeat timeout of the new leader
	reach(t, 20, one, two)
	agree(t, one, two)
	if one.m.QuorumID() != id || one.m.Stats().Joins != joins || one.m.Stats().Discards != 0 {
		t.Errorf("quorum %d became %d, %d joins, %d discards; want nothing to happen",
			id, one.m.QuorumID(), one.m.Stats().Joins-joins, one.m.Stats().Discards)
	}
	three := start(t, b, "three", nil)
	reach(t, 20, three)
	agree(t, one, two, three)
}

// A drained replica ends without a discarded step for anybody.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := startLighthouse(t)
	one, two, three := start(t, b, "one", nil), start(t, b, "two", nil), start(t, b, "three", nil)
	reach(t, 10, one, two, three)
	two.m.Drain()
	select {
	case err := <-two.done:
		two.done <- err
		if !errors.Is(err, manager.ErrDrained) {
			t.Errorf("ended with %v, want drained", err)
		}
	case <-time.After(patience):
		t.Fatal("the drained replica does not end")
	}
	reach(t, 20, one, three)
	agree(t, one, two, three)
	if d := one.m.Stats().Discards + three.m.Stats().Discards; d != 0 {
		t.Errorf("%d discarded steps", d)
	}
}
