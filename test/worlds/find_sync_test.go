package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
)

// L1: a trainer of a Sync job that hangs between two steps costs the others a stall, and
// not one at each later fall: it is away, as one of a job without Sync is.
func TestWorldSyncedTrainerHangsBetweenSteps(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.tune = func(c *manager.Config) { c.Sync = true }
		hung := m
		hung.at = func(ctx context.Context, p *proc, s stage) {
			if s == stagePause && p.m.Step() >= 20 {
				p.hang(ctx)
			}
		}
		a, b, d := w.replica("a", 0, 1, m).start(), w.replica("b", 1, 1, m).start(), w.replica("d", 3, 1, m).start()
		c := w.replica("c", 2, 1, hung).start()
		w.reach(20, 10*time.Second, a, b, c, d)
		w.reach(200, 60*time.Second, a, b, d)
		for range few(3) {
			time.Sleep(3 * time.Minute)
			w.book.watch()
			d.kill()
			at := a.ranks[0].atStep()
			w.reach(at+20, time.Minute, a, b)
			t.Logf("longest gap %v", w.book.longest())
			if gap := w.book.longest(); gap > 5*time.Second {
				t.Errorf("a death costs %v, for c's trainer has hung for minutes", gap)
			}
			d.start()
			w.reach(a.ranks[0].atStep()+20, time.Minute, a, b, d)
		}
	})
}
