package manager

import (
	"testing"
	"testing/synctest"
)

// Members of a quorum whose list is too long to be sent to everybody are told their
// own part: they commit, and go on when one of them dies.
func TestTrainByViews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lh.views = true
		w.tune = func(c *Config) { c.MinReplicas = 2 }
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(10, a, b, c)
		c.kill()
		w.reaches(a.m.Step()+10, a, b)
		a.stop()
		b.stop()
		w.agree(a, b, c)
	})
}
