package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/viewers"
)

// runViewers measures what people who look cost: the leader's processor, and those who train.
func runViewers(ctx context.Context, o Options, emit emitFunc) error {
	for _, n := range o.worlds(1_000) {
		err := viewersRows(ctx, viewers.Run{
			Replicas: n, Jobs: 10, Events: 1_000, Viewers: 100, Slow: 10, Rounds: cmp.Or(o.Samples, 6),
			Period: 20 * time.Second, Between: 6 * time.Second, DeafLimit: 2 * time.Minute,
		}, emit)
		if err != nil {
			return fmt.Errorf("%d replicas: %w", n, err)
		}
	}
	return nil
}

func viewersRows(ctx context.Context, r viewers.Run, emit emitFunc) (err error) {
	if err := moreFiles(); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	cluster, err := startServers(ctx, serverOptions{count: 1, minReplicas: 2, durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	conns, err := dial(cluster.addrs[0], min(scaleConns, r.Replicas))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConns(conns)) }()
	r.Addr, r.PID, r.Conns = cluster.addrs[0], cluster.procs[0].PID(), conns
	return r.Measure(ctx, func(s viewers.Series) {
		emit(Contest{Bench: s.Name, Unit: s.Unit}.row("skerry", s.Params, s.Samples))
	})
}
