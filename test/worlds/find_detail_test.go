package worlds

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/debug"
)

// L1: a replica that calls other collectives is refused also where each call is compared
// before it runs (SKERRY_DEBUG=DETAIL). (The comparison named it in text alone, and
// accused nobody: the others made quorums with it, ever more slowly, and committed
// nothing for as long as it came.)
func TestWorldOddReplicaIsRefusedInDetail(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.tune = func(c *manager.Config) { c.Debug = debug.New(debug.Config{Level: debug.Detail}) }
		a, b := w.replica("a", 0, 1, m).start(), w.replica("b", 1, 1, m).start()
		w.reach(20, 10*time.Second, a, b)
		odd := m
		odd.odd = true
		w.replica("c", 2, 1, odd).start()
		time.Sleep(5 * time.Second)
		w.reach(a.ranks[0].atStep()+50, time.Minute, a, b)
	})
}
