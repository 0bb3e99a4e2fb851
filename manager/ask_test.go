package manager

import (
	"testing"
	"testing/synctest"
)

// An ask is answered only if all members ask at one step. A member whose last
// ask went unanswered asks with the others all the same: if each kept to a
// pause of its own, they would never ask together again, and a joiner would
// wait for ever.
func TestMembersAskTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.HeartbeatTimeout = patience / 8 // a pause of its own, of ten, would outlast the test
		w := newWorldWith(t, rules)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		a.m.mu.Lock()
		a.m.askLocked() // alone
		a.m.mu.Unlock()
		eventually(t, "a's ask goes unanswered", func() bool { return a.m.Stats().Unanswered > 0 })
		d := w.trainer("d").start(1 << 40)
		eventually(t, "d takes part", func() bool { return d.m.IsParticipating() && a.m.NumParticipants() == 4 })
		w.reaches(d.m.Step()+5, a, b, c, d)
		w.agree(a, b, c, d)
	})
}
