package worlds

import (
	"testing"
	"time"
)

// A newcomer that calls other collectives than the others, for ever, does not stop
// them for ever.
func TestWorldNewcomerWithOtherCollectives(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(30, 10*time.Second, all...)
		odd := quick()
		odd.odd = true
		w.replica("c", 2, 1, odd).start()
		time.Sleep(10 * time.Second)
		at := all[0].ranks[0].atStep()
		w.reach(at+100, 10*time.Second, all...)
	})
}

// rankDies kills one rank of a replica whose other rank lives: within a second that ends
// too, and the other replicas have committed.
func rankDies(t *testing.T, rank int) {
	inWorld(t, usual(), func(w *world) {
		var all []*replica
		for i, name := range []string{"a", "b", "c"} {
			all = append(all, w.replica(name, i, 2, quick()).start())
		}
		w.reach(30, 10*time.Second, all...)
		w.book.watch()
		w.book.fault(all[2].name, "rank %d killed", rank)
		all[2].ranks[rank].kill()
		w.within(time.Second, "its other rank ends", all[2].ranks[1-rank].over)
		w.reach(200, 10*time.Second, all[:2]...)
		if gap := w.book.longest(); gap > time.Second {
			t.Errorf("%v without a commit after the death of a rank, want at most 1s", gap)
		}
	})
}

func TestWorldRankZeroDies(t *testing.T) { rankDies(t, 0) }
func TestWorldRankOneDies(t *testing.T)  { rankDies(t, 1) }

// Each of many kills costs the others no more than a moment: the witness that saw
// the link break first is heard.
func TestWorldEachKillIsWitnessed(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(4, quick())
		for range 50 {
			at := all[0].ranks[0].atStep()
			if !w.reach(at+5, 10*time.Second, all...) {
				return
			}
			w.book.watch()
			all[3].kill()
			w.reach(at+20, 10*time.Second, all[:3]...)
			if gap := w.book.longest(); gap > 500*time.Millisecond {
				t.Errorf("at %v: %v without a commit after a kill, want at most 500ms", w.now(), gap)
				return
			}
			all[3].start()
		}
	})
}
