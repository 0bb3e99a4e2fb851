package tcp

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/internal/step/steptest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

var steady = flag.Int("tcp.steady", 0, "steps of TestSteady, whose longest is then bounded; 0: a few")

// maxSteadyStep bounds a step when TestSteady was asked for: nothing but the
// machine's load holds it up.
const maxSteadyStep = time.Second

// jitter is a hook that widens every window, sometimes, to what a busy host does.
func jitter(on bool) step.Hook {
	if !on {
		return nil
	}
	return &steptest.Jitter{Every: 40, Most: 400 * time.Microsecond}
}

// TestSteady: ranks of one host, with no fault, take step after step: none waits for a
// wake-up that does not come. Steps are small, so that ranks fall asleep all the time.
func TestSteady(t *testing.T) {
	for _, world := range []int{2, 3, 4} {
		for _, transport := range []Transport{TransportShared, TransportTCP} {
			for _, jitter := range []bool{false, true} {
				t.Run(fmt.Sprintf("world=%d/%v/jitter=%v", world, transport, jitter), func(t *testing.T) {
					if *steady == 0 && (world == 3 || testing.Short() && transport == TransportTCP) {
						t.Skip("processes for as long as steps take")
					}
					if *steady == 0 {
						t.Parallel() // else each has the machine for itself
					}
					goSteady(t, world, rankOptions{
						Transport: transport, Jitter: jitter, RingBytes: minRingBytes, BeatTimeout: patientBeats,
					})
				})
			}
		}
	}
}

// steadyOrder is how many steps a rank is told to take at once.
const steadyOrder = 500

func goSteady(t *testing.T, world int, opt rankOptions) {
	total := *steady
	if total == 0 {
		total = steadyOrder
	}
	if opt.Jitter {
		total = max(total/10, steadyOrder)
	}
	var ranks []*rankProcess
	for i := range world {
		ranks = append(ranks, startRank(t, fmt.Sprintf("steady%d", i)))
	}
	o := order{Do: "configure", Store: testStore(t, nil), Q: 1, Opt: opt}
	orderAll(t, ranks, o)
	o.Do, o.Steps = "steps", steadyOrder
	longest := time.Duration(0)
	start := time.Now()
	for done := 0; done < total; done += steadyOrder {
		for _, a := range orderAll(t, ranks, o) {
			longest = max(longest, time.Duration(a.Gap))
		}
	}
	t.Logf("%d steps in %v, the longest took %v", total, time.Since(start).Round(time.Millisecond), longest.Round(time.Microsecond))
	if *steady > 0 && longest > maxSteadyStep {
		t.Errorf("a step took %v, want at most %v", longest, maxSteadyStep)
	}
}

// steps takes steps like a trainer's, and gives the time of the longest: now and then two
// all-reduces at once, a message longer than a ring, or one op that fills it; and
// always a ballot, which is waited for without helping.
func steps(ctx context.Context, g *pg.Group, o *order) (longest int64, err error) {
	small, large := make([]float32, 64), make([]float32, 300<<10)
	in := make([]float32, len(large))
	next, last := (o.Rank+1)%len(o.IDs), (o.Rank+len(o.IDs)-1)%len(o.IDs)
	for i := 0; i < o.Steps && err == nil; i++ {
		start := time.Now()
		switch {
		case i%50 == 10:
			err = g.AllReduce(ctx, tensor.Of(large), tensor.Max)
		case i%50 == 20:
			sent := g.SendAsync(tensor.Of(large), pg.Envelope{Peer: next})
			_, err = g.Recv(ctx, tensor.Of(in), pg.Envelope{Peer: last})
			err = errors.Join(err, g.Wait(ctx, sent))
		case i%5 == 0:
			first := g.AllReduceAsync(tensor.Of(small[:32]), tensor.Max)
			second := g.AllReduceAsync(tensor.Of(small[32:]), tensor.Max)
			err = errors.Join(g.Wait(ctx, second), g.Wait(ctx, first))
		default:
			err = g.AllReduce(ctx, tensor.Of(small), tensor.Max)
		}
		if err == nil {
			err = castBallot(g)
		}
		longest = max(longest, int64(time.Since(start)))
	}
	return longest, err
}

// castBallot waits as a manager does.
func castBallot(g *pg.Group) error {
	w := g.Backend().Submit(&pg.Op{Kind: pg.KindBallot, Ballot: []byte("yes")})
	<-w.Done()
	return w.Err()
}
