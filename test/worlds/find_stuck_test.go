package worlds

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// A heal takes longer than StuckAfter, and one more replica joins meanwhile: those
// who wait for the healer are not stuck, and the joiner forms no quorum of its own.
func TestWorldHealLongerThanStuckAfter(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(20, 10*time.Second, all...)
		slow := quick()
		slow.heals = 90 * time.Second
		c := w.replica("c", 2, 1, slow).start()
		time.Sleep(65 * time.Second)
		d := w.replica("d", 3, 1, quick()).start()
		w.reach(60, 60*time.Second, append(all, c, d)...)
	})
}

// The same with a joiner each minute.
func TestWorldHealsLongerThanStuckAfterAndAJoinerEachMinute(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(20, 10*time.Second, all...)
		slow := quick()
		slow.heals = 3 * time.Minute
		for i, name := range []string{"c", "d", "e"} {
			all = append(all, w.replica(name, 2+i, 1, slow).start())
			time.Sleep(time.Minute)
		}
		w.reach(100, 15*time.Minute, all...)
	})
}

// EvictStuck takes out the trainer that hangs, and not those who wait for it.
func TestWorldEvictStuckEvictsTheHungOne(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout, o.rules.StuckAfter, o.rules.EvictStuck = 2*time.Minute, 20*time.Second, true
	for offset := range few(10) { // of the beats of the one against those of the others
		inWorld(t, o, func(w *world) {
			all := w.replicas(2, quick())
			time.Sleep(time.Duration(10*offset+5) * time.Millisecond)
			c := w.replica("c", 2, 1, hangs(quick(), stageBetween, 20)).start()
			w.reach(20, 10*time.Second, append(all, c)...)
			w.reach(100, 60*time.Second, all...)
		})
	}
}
