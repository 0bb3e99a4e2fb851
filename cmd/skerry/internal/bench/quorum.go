package bench

import (
	"cmp"
	"context"
	"errors"
)

// The envelope: a gRPC call over loopback is about 55 µs. A quorum that stands
// is n calls at once, one decision and one check of leadership, without a write; one
// that changes adds one raft commit: 0.05 ms in memory, 0.28 ms with one fsync, and
// with three servers the same on a follower and a round trip to it.

// runQuorum measures the time until all n replicas have their answer, through
// torchft's API, which asks every step.
func runQuorum(ctx context.Context, o Options, emit emitFunc) error {
	contest := Contest{Bench: "quorum", Unit: "us", Samples: cmp.Or(o.Samples, 200), Warmup: 20}
	for _, n := range o.worlds(2, 8) {
		for _, s := range []serverOptions{{count: 1}, {count: 1, durable: true}, {count: 3, durable: true}} {
			s.minReplicas = n
			if err := quorumRows(ctx, contest, o, s, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

func quorumRows(ctx context.Context, contest Contest, o Options, s serverOptions, emit emitFunc) error {
	n := s.minReplicas
	cluster, err := startServers(ctx, s)
	if err != nil {
		return err
	}
	leads, err := cluster.leader(ctx)
	if err != nil {
		return errors.Join(err, cluster.Close())
	}
	o.Peers = o.Peers && s.count == 1 && !s.durable // theirs is one server, in memory
	return withAskers(ctx, o, cluster.asked(leads), n, n, false, func(all []Contestant) error {
		for _, change := range []bool{false, true} {
			p := Params{"n": n, "servers": s.count, "durable": s.durable, "change": change}
			if _, err := all[0].Sample(ctx, p); err != nil { // the first forms the quorum
				return err
			}
			before, err := cluster.metric(ctx, leads, "skerry_lighthouse_raft_last_index")
			if err != nil {
				return err
			}
			rows, err := contest.Run(ctx, p, all)
			if err != nil {
				return err
			}
			after, err := cluster.metric(ctx, leads, "skerry_lighthouse_raft_last_index")
			if err != nil {
				return err
			}
			// What is not written is not synced: the log's index is the count of both.
			rows[0].Params["writes"] = int(after - before)
			emit(rows...)
		}
		return nil
	})
}
