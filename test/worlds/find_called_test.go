package worlds

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
)

// A newcomer copies while the quorum falls and too few are left; the lighthouse that
// knew that it copies is gone in that second. The next one calls it all the same.
func TestWorldWhoCopiesIsCalledByTheNextLeader(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		m := quick()
		m.tune = func(c *manager.Config) { c.Sync = true }
		a, b := w.replica("a", 0, 1, m).start(), w.replica("b", 1, 1, m).start()
		if !w.reach(20, 20*time.Second, a, b) {
			return
		}
		n := m
		n.heals = 5 * time.Second
		c := w.replica("c", 2, 1, n).start()
		time.Sleep(2 * time.Second) // it copies
		b.kill()
		time.Sleep(500 * time.Millisecond)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", true)
		w.restartHouse(100*time.Millisecond, false)
		time.Sleep(400 * time.Millisecond)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		at := a.ranks[0].atStep()
		w.within(20*time.Second, "a and c go on", func() bool { return a.ranks[0].atStep() > at })
	})
}
