package pg_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/tensor"
)

// gated is a stub whose next Submit waits, as a thread that is not on a processor does, and which
// notes for which quorum each op came.
type gated struct {
	stub
	open <-chan struct{}
	came []int64
}

func (g *gated) Submit(op *pg.Op) *pg.Work {
	<-g.open
	g.came = append(g.came, g.config.QuorumID)
	return g.stub.Submit(op)
}

// TestManagedIssuesBeforeItConfigures: an op that has its roster reaches the group of that quorum,
// and never that of the next one, where its divisor and its shape are not the others'. Configure
// waits for it, no longer than its ctx.
func TestManagedIssuesBeforeItConfigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		g := &gated{open: open}
		m := pg.NewManaged(g, managedtest.New(2, 0, 0, 1))
		if err := m.Configure(t.Context(), stubConfig(1)); err != nil {
			t.Fatal(err)
		}
		go m.Submit(reduce())
		synctest.Wait() // it has its roster, and waits for a processor
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Configure(short, stubConfig(2)); err == nil || g.config.QuorumID != 1 {
			t.Errorf("configured for quorum %d (%v) while an op is being issued", g.config.QuorumID, err)
		}
		configured := make(chan error, 1)
		go func() { configured <- m.Configure(t.Context(), stubConfig(3)) }()
		synctest.Wait()
		close(open)
		if err := <-configured; err != nil {
			t.Fatal(err)
		}
		if len(g.came) != 1 || g.came[0] != 1 {
			t.Errorf("ops came for quorums %v, want one, for 1", g.came)
		}
	})
}

// reduce is an all-reduce of one element.
func reduce() *pg.Op {
	ts := []tensor.Tensor{f64(1)}
	return &pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Sum, In: ts, Out: ts}
}
