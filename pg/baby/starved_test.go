package baby

import (
	"context"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// An op for which there is no shared memory breaks the group everywhere: the
// peers would wait for it.
func TestStarved(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var members []pgtest.Member
	for r := range 2 {
		members = append(members, w.Join(fmt.Sprint("r", r), newBaby(t, Options{})))
	}
	w.Configure(members...)
	starved := members[1].Backend.(*Backend)
	starved.mem.mu.Lock()
	starved.mem.mu.closed = true
	starved.mem.mu.Unlock()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		if err := g.AllReduce(ctx, tensor.Of(make([]float32, 1000)), tensor.Sum); err == nil {
			return fmt.Errorf("all-reduce of rank %d succeeded", rank)
		}
		if g.Err() == nil {
			return fmt.Errorf("the group of rank %d is not broken", rank)
		}
		return nil
	})
}
