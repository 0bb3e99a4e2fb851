package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestManagedStress: whatever happens around them (new attempts, quorums that
// come or never do, aborts, contexts that end, Configure, Close), every op ends.
func TestManagedStress(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			managedStress(t, seed)
		})
	}
}

func managedStress(t *testing.T, seed uint64) {
	w, managers := managedtest.World(t, 1, 0)
	m, g := managers[0], w.Groups[0]
	var users sync.WaitGroup
	stop := make(chan struct{})
	for i := range uint64(4) {
		users.Go(func() { useGroup(t, g, rand.New(rand.NewPCG(seed, i)), stop) })
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	for range 300 {
		switch rng.IntN(8) {
		case 0, 1:
			m.Begin()
		case 2, 3, 4:
			m.Settle(nil)
		case 5:
			m.Settle(errors.New("no quorum"))
		case 6:
			g.Abort(errors.New("cut"))
		case 7:
			m.Begin()
			m.Settle(nil)
			w.Next()
			if err := g.Configure(t.Context(), w.Config(w.Members, 0)); err != nil {
				t.Error(err)
			}
		}
	}
	if err := g.Close(); err != nil { // and the users are still at it
		t.Error(err)
	}
	close(stop)
	done := make(chan struct{})
	go func() {
		defer close(done)
		users.Wait()
	}()
	select {
	case <-done:
	case <-time.After(pgtest.Bound):
		t.Fatal("an op never ended")
	}
}

// useGroup calls verbs until stop, blocking and not, some with contexts that
// end at once or soon.
func useGroup(t *testing.T, g *pg.Group, rng *rand.Rand, stop <-chan struct{}) {
	var under []*pg.Work
	for {
		select {
		case <-stop:
			for _, work := range under {
				<-work.Done()
			}
			return
		default:
		}
		x := tensor.Of(make([]float32, 8))
		switch rng.IntN(4) {
		case 0:
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
			_ = g.AllReduce(ctx, x, tensor.Avg) // ends, in whatever way: that is the test
			cancel()
		case 1:
			_ = g.Submit(&pg.Op{Kind: pg.KindBallot}).Err()
		default:
			under = append(under, g.AllReduceAsync(x, tensor.Sum))
		}
		if len(under) > 50 {
			for _, work := range under[:25] {
				select {
				case <-work.Done():
				case <-stop:
				}
			}
			under = under[25:]
		}
	}
}
