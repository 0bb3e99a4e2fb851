package worlds

import (
	"context"
	"testing"
	"time"
)

// A newcomer has its session long before its first StartQuorum: it compiles its model.
// A member dies meanwhile, too few are left, and the lighthouse calls the newcomer.
// When it begins it joins: it does not copy from who waits for it.
func TestWorldNewcomerThatWasCalledBeforeItCopiesJoins(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		compiled := make(chan struct{})
		slow := quick()
		slow.heals = 5 * time.Minute
		slow.at = func(ctx context.Context, _ *proc, s stage) {
			if s == stagePause {
				select {
				case <-compiled:
				case <-ctx.Done():
				}
			}
		}
		z := w.replica("z", 2, 1, slow).start()
		time.Sleep(time.Second)
		b.kill()
		time.Sleep(2 * o.rules.HeartbeatTimeout)
		close(compiled)
		w.within(5*time.Second, "z joins", func() bool { return z.ranks[0].m.Stats().Joins > 0 })
	})
}
