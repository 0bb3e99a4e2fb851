package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
)

// The envelope: an op in a child costs two records of some 150 bytes in shared
// memory and two wake-ups of a process, 5 to 10 µs each, and on the trainer's side
// a goroutine's turn; tensors that are not the Baby's own cost two copies more, at
// 8 GB/s. A restart with a spare is a message and the configuration of its
// backend; without, the start of a process on top. See docs/bench/baby.md.

// runBaby measures what a child costs.
func runBaby(ctx context.Context, o Options, emit emitFunc) error {
	contest := Contest{Bench: "baby", Unit: "us", Samples: cmp.Or(o.Samples, 60), Warmup: 3}
	kinds := []rankKind{
		{impl: "skerry", Transport: tcp.TransportAuto, Child: noChild, takes: babySample},
		{impl: "skerry-baby", Transport: tcp.TransportAuto, Child: childAlloc, takes: babySample},
		{impl: "skerry-baby-copies", Transport: tcp.TransportAuto, Child: childCopies, takes: babySample},
	}
	err := withRanks(ctx, Options{}, o.worlds(2), kinds, func(n int, all []Contestant) error {
		for _, size := range o.sizes(4, 4<<10, 1<<20, 25<<20) {
			if err := beside(ctx, contest, Params{"op": opAllReduce, "n": n, "bytes": size}, all, emit); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return babyRestarts(ctx, contest, emit)
}

// babySample is how long a sample lasts: short, so that most are without one of
// the moments in which a loaded machine runs none of a Baby's two processes, and
// the median over many is that of an op.
const babySample = 5 * time.Millisecond

// beside has all contestants run an op in turn, and gives the figures of each
// against the first: medians over the rounds, of what both took in one round.
func beside(ctx context.Context, contest Contest, p Params, all []Contestant, emit emitFunc) error {
	rows, err := contest.Run(ctx, p, all)
	if err != nil {
		return err
	}
	for _, row := range rows[1:] {
		var ratios, more []float64
		for round, took := range row.samples {
			ratios = append(ratios, took/rows[0].samples[round])
			more = append(more, took-rows[0].samples[round])
		}
		row.Params["ratio"], row.Params["more_us"] = median(ratios), median(more)
	}
	emit(rows...)
	return nil
}

// babyRestarts measures the Configure of a group of one: what is left of it is
// the child's.
func babyRestarts(ctx context.Context, contest Contest, emit emitFunc) error {
	contest.Unit = "ms"
	contest.Samples = min(contest.Samples, maxRestarts)
	address, end, err := serveStore(store.ServerConfig{})
	if err != nil {
		return err
	}
	for _, spare := range []bool{false, true} {
		r := &restarter{address: address, spare: spare}
		if r.Backend, err = baby.New(baby.Options{Backend: tcp.Name}); err != nil {
			break
		}
		err = contest.Each(ctx, []Contestant{r}, emit, Params{"op": "restart", "spare": spare})
		if err = errors.Join(err, r.Close()); err != nil {
			break
		}
	}
	return errors.Join(err, end())
}

// maxRestarts bounds the samples of restarts, each of which is a process.
const maxRestarts = 20

// restarter replaces a child again and again.
type restarter struct {
	*baby.Backend

	address string
	spare   bool
	quorum  int64
}

// Impl names us.
func (r *restarter) Impl() string { return "skerry-baby" }

// Sample measures a Configure.
func (r *restarter) Sample(ctx context.Context, _ Params) (float64, error) {
	if r.spare {
		if err := r.Warm(ctx); err != nil {
			return 0, err
		}
	}
	r.quorum++
	c := pg.Config{
		StoreAddress: fmt.Sprintf("%s/%v/%d", r.address, r.spare, r.quorum), ReplicaIDs: []string{"solo"},
		Cluster: fmt.Sprintf("bench-%v", r.spare), QuorumID: r.quorum, GroupWorldSize: 1,
	}
	start := time.Now()
	err := r.Configure(ctx, c)
	return float64(time.Since(start).Microseconds()), err
}
