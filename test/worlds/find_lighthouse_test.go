package worlds

import (
	"testing"
	"time"
)

// All replicas lose the lighthouse for two seconds, while all live: no quorum falls.
func TestWorldBlipInFrontOfTheLighthouse(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		quorum := all[0].ranks[0].m.QuorumID()
		w.book.watch()
		w.blip(2 * time.Second)
		time.Sleep(5 * time.Second)
		holdsUpNobody(w)
		for _, r := range all {
			if s := r.ranks[0].m.Stats(); s.Discards > 0 || r.ranks[0].m.QuorumID() != quorum {
				t.Errorf("%s: quorum %d, then %d, and %d steps discarded: want one quorum and none",
					r.name, quorum, r.ranks[0].m.QuorumID(), s.Discards)
			}
		}
	})
}

// holdsUpNobody wants that no step since the book watches has waited for the lighthouse.
func holdsUpNobody(w *world) {
	w.t.Helper()
	const most = 100 * time.Millisecond // ten steps
	if gap := w.book.longest(); gap > most {
		w.t.Errorf("%v without a commit, want at most %v: a step waited for the lighthouse", gap, most)
	}
}

// A lighthouse that starts again with its ledger stops nobody.
func TestWorldLighthouseStartsAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		w.book.watch()
		w.restartHouse(3*time.Second, false)
		w.reach(500, 20*time.Second, all...)
		holdsUpNobody(w)
		all[2].kill()
		w.reach(800, 20*time.Second, all[:2]...)
	})
}

// One that lost its ledger takes the job over from those who hold answers.
func TestWorldLighthouseLosesItsLedger(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		w.restartHouse(3*time.Second, true)
		w.reach(500, 20*time.Second, all...)
		all[2].kill()
		w.reach(800, 20*time.Second, all[:2]...)
		all[2].start()
		w.reach(900, 20*time.Second, all...)
	})
}

// One reported error while the lighthouse is away costs one step.
func TestWorldReportedErrorWithoutALighthouse(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(2, quick())
		w.reach(20, 10*time.Second, all...)
		w.house.stop()
		time.Sleep(time.Second)
		all[1].ranks[0].m.ReportError(errEnded)
		at := all[0].ranks[0].atStep()
		w.reach(at+100, 5*time.Second, all...)
		w.house = w.startHouse()
	})
}
