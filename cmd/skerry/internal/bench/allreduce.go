package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// The envelope, per rank, for W ranks and N bytes on one host: an all-reduce by
// direct exchange sends and receives 2(W-1)/W·N bytes and folds N bytes. In
// shared memory each byte that is sent is one copy in and at most one out, at 8
// to 17 GB/s from memory: n=2 and 25 MiB need 3 copies of 12.5 MiB and a fold, 4
// to 5 ms on a core each; n=4 on two cores twice 4.5 copies of 6.25 MiB, the
// same. Over loopback (about 4 GB/s in all directions together) n=2 needs
// 2·25 MiB / 4 GB/s = 13 ms at least, n=4 4·1.5·25 MiB / 4 GB/s = 39 ms. A small
// message is one or two wake-ups of about 10 µs, or none while both sides look.

// The ops of tasks. A reduce-scatter's, an all-gather's and an all-to-all's bytes
// are those of the tensor that is whole: each rank's slot has bytes/n.
const (
	opAllReduce     = "allreduce"
	opReduceScatter = "reducescatter"
	opAllGather     = "allgather"
	opAllToAll      = "alltoall"
	opBroadcast     = "broadcast"
)

// runAllReduce measures all-reduce by world size and bytes.
func runAllReduce(ctx context.Context, o Options, emit emitFunc) error {
	sizes := []int64{1 << 10, 4 << 10, 64 << 10, 1 << 20, 25 << 20, 64 << 20, 256 << 20}
	return runOps(ctx, o, "allreduce", []string{opAllReduce}, sizes, emit)
}

// runCollectives measures the others.
func runCollectives(ctx context.Context, o Options, emit emitFunc) error {
	ops := []string{opReduceScatter, opAllGather, opAllToAll, opBroadcast}
	return runOps(ctx, o, "collectives", ops, []int64{4 << 10, 1 << 20, 25 << 20}, emit)
}

// runOps measures each op at each world size and number of bytes.
func runOps(ctx context.Context, o Options, bench string, ops []string, sizes []int64, emit emitFunc) error {
	contest := Contest{Bench: bench, Unit: "us", Samples: cmp.Or(o.Samples, 10), Warmup: 1, Bandwidth: true}
	return withRanks(ctx, o, o.worlds(2, 4, 8), ourTransports(), func(n int, all []Contestant) error {
		var sets []Params
		for _, op := range ops {
			for _, size := range o.sizes(sizes...) {
				sets = append(sets, Params{"op": op, "n": n, "bytes": size})
			}
		}
		return contest.Each(ctx, all, emit, sets...)
	})
}

// withRanks starts, for each of the worlds, ranks of ours of each kind and the peers',
// lends them to f, and ends them.
func withRanks(ctx context.Context, o Options, worlds []int, kinds []rankKind, f func(n int, all []Contestant) error) error {
	for _, n := range worlds {
		if err := withWorld(ctx, o, n, kinds, f); err != nil {
			return err
		}
	}
	return nil
}

func withWorld(ctx context.Context, o Options, n int, kinds []rankKind, f func(n int, all []Contestant) error) (err error) {
	var all []Contestant
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for _, kind := range kinds {
		ours, err := startRanks(n, kind)
		if err != nil {
			return err
		}
		all = append(all, ours)
	}
	if o.Peers {
		all = append(all, startPeers(ctx, o, n)...)
	}
	for _, c := range all {
		// One that is still starting would slow the others down.
		if _, err := c.Sample(ctx, Params{"op": opBroadcast, "n": n, "bytes": int64(4)}); err != nil {
			return fmt.Errorf("start %s: %w", c.Impl(), err)
		}
	}
	return f(n, all)
}
