package manager

import (
	"testing"
	"testing/synctest"
)

func TestThreeReplicasTrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(20), w.trainer("b").start(20), w.trainer("c").start(20)
		w.reaches(20, a, b, c)
		w.agree(a, b, c)
		for _, tr := range []*trainer{a, b, c} {
			s := tr.m.Stats()
			if s.Joins != 1 || s.Commits != 20 || s.Discards != 0 {
				t.Errorf("%s: %+v, want 1 join, 20 commits, no discards", tr.name, s)
			}
			if got := tr.m.BatchesCommitted(); got != 60 {
				t.Errorf("%s: BatchesCommitted = %d, want 60", tr.name, got)
			}
		}
	})
}

func TestKilledReplicaComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1000), w.trainer("b").start(1000), w.trainer("c").start(1000)
		w.reaches(5, a, b, c)
		c.kill()
		at := a.m.Step()
		w.reaches(at+10, a, b)
		back := w.trainer("c").start(1000)
		w.reaches(back.m.Step()+20, back)
		w.agree(a, b, c, back)
		if s := back.m.Stats(); s.Heals == 0 {
			t.Errorf("the restarted replica did not heal: %+v", s)
		}
	})
}
