package pg_test

import (
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/fault"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestBroken: the channel is closed when the group breaks, on ranks that are in
// no op too, and for an epoch that is over; the next epoch has its own.
func TestBroken(t *testing.T) {
	w := pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend {
		return trace.NewRecorder(debug.NewCheck(fault.NewInjector(b)), trace.Config{Entries: 4})
	})
	g := w.Groups[1]
	first, epoch := g.Broken(), w.Epoch()
	if first == nil || closed(first) {
		t.Fatal("broken from the beginning, or not watched")
	}
	w.Groups[0].Abort(errors.New("enough"))
	testkit.Eventually(t, "the channel of the broken epoch is closed", func() bool { return closed(first) })
	if g.Err() == nil {
		t.Error("broken without an error")
	}
	w.Configure(w.Members...)
	if closed(w.Groups[1].Broken()) {
		t.Error("the next epoch is broken")
	}
	if !closed(pg.BrokenOf(w.Members[1].Backend, epoch)) {
		t.Error("the epoch before goes on")
	}
	if c := pg.BrokenOf(dummy.New(), epoch); c != nil {
		t.Error("the dummy backend is watched")
	}
}
