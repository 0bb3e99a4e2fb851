package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
)

// The envelope: an op in a child costs two messages over a Unix socket, each a
// system call and the wake-up of a process, 10 to 20 µs; tensors that are not the
// Baby's own cost two copies more, at 8 GB/s. A restart with a spare is a message
// and the configuration of its backend; without, the start of a process on top.

// runBaby measures what a child costs.
func runBaby(ctx context.Context, o Options, emit func(Row) error) error {
	worlds, sizes := []int{2}, []int64{4, 4 << 10, 1 << 20, 25 << 20}
	if o.N != nil {
		worlds = o.N
	}
	if o.Bytes != nil {
		sizes = o.Bytes
	}
	contest := Contest{Bench: "baby", Unit: "us", Samples: 10, Warmup: 1}
	if o.Samples > 0 {
		contest.Samples = o.Samples
	}
	for _, n := range worlds {
		if err := babyWorld(ctx, contest, n, sizes, emit); err != nil {
			return err
		}
	}
	return babyRestarts(ctx, contest, emit)
}

func babyWorld(ctx context.Context, contest Contest, n int, sizes []int64, emit func(Row) error) (err error) {
	var all []Contestant
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for _, kind := range []transportKind{
		{"skerry", tcp.TransportAuto, noChild},
		{"skerry-baby", tcp.TransportAuto, childAlloc},
		{"skerry-baby-copies", tcp.TransportAuto, childCopies},
	} {
		ours, err := startRanks(ctx, n, kind)
		if err != nil {
			return err
		}
		all = append(all, ours)
	}
	for _, size := range sizes {
		if err := runOp(ctx, contest, Params{"op": opAllReduce, "n": n, "bytes": size}, all, emit); err != nil {
			return err
		}
	}
	return nil
}

// babyRestarts measures the Configure of a group of one: what is left of it is
// the child's.
func babyRestarts(ctx context.Context, contest Contest, emit func(Row) error) error {
	contest.Unit = "ms"
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		return err
	}
	storeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Run(storeCtx) }()
	for _, spare := range []bool{false, true} {
		r := &restarter{address: server.Addr(), spare: spare}
		if r.backend, err = baby.New(baby.Options{Backend: tcp.Name}); err != nil {
			break
		}
		var rows []Row
		rows, err = contest.Run(ctx, Params{"op": "restart", "spare": spare}, []Contestant{r})
		err = errors.Join(err, r.Close())
		for _, row := range rows {
			err = errors.Join(err, emit(row))
		}
		if err != nil {
			break
		}
	}
	stop()
	return errors.Join(err, <-served)
}

// restarter replaces a child again and again.
type restarter struct {
	address string
	spare   bool
	backend *baby.Backend
	quorum  int64
}

// Impl names us.
func (r *restarter) Impl() string { return "skerry-baby" }

// Close ends the child.
func (r *restarter) Close() error { return r.backend.Close() }

// Sample measures milliseconds per Configure.
func (r *restarter) Sample(ctx context.Context, _ Params) (float64, error) {
	if r.spare {
		if err := r.backend.Warm(ctx); err != nil {
			return 0, err
		}
	}
	r.quorum++
	c := pg.Config{
		StoreAddress: fmt.Sprintf("%s/%v/%d", r.address, r.spare, r.quorum), ReplicaIDs: []string{"solo"},
		Cluster: fmt.Sprintf("bench-%v", r.spare), QuorumID: r.quorum, GroupWorldSize: 1,
	}
	start := time.Now()
	err := r.backend.Configure(ctx, c)
	return float64(time.Since(start).Microseconds()) / 1e3, err
}
