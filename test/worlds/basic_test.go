package worlds

import (
	"testing"
	"time"
)

func TestWorldTrains(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(100, 10*time.Second, all...)
	})
}

func TestWorldKillAndRejoin(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(20, 10*time.Second, all...)
		all[1].kill()
		w.reach(40, 5*time.Second, all[0])
		all[1].start()
		w.reach(100, 10*time.Second, all...)
	})
}

func TestWorldOfRanks(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 2, quick()).start()
		b := w.replica("b", 1, 2, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		b.kill()
		w.reach(40, 5*time.Second, a)
		b.start()
		w.reach(100, 10*time.Second, a, b)
	})
}
