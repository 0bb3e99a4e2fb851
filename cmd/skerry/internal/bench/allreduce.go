package bench

import (
	"context"
)

// The envelope, per rank, for W ranks and N bytes on one host: an all-reduce by
// direct exchange sends and receives 2(W-1)/W·N bytes and folds N bytes. Over
// loopback (about 4 GB/s in all directions together) n=2 and 25 MiB need
// 2·25 MiB / 4 GB/s = 13 ms at least, n=4 4·1.5·25 MiB / 4 GB/s = 39 ms. A 4 KiB
// message is two wake-ups of about 10 µs.

// runAllReduce measures all-reduce by world size and bytes.
func runAllReduce(ctx context.Context, o Options, emit func(Row) error) error {
	worlds, sizes := o.N, o.Bytes
	if worlds == nil {
		worlds = []int{2, 4}
	}
	if sizes == nil {
		sizes = []int64{4 << 10, 1 << 20, 25 << 20}
	}
	contest := Contest{Bench: "allreduce", Unit: "us", Samples: 20, Warmup: 2}
	if o.Samples > 0 {
		contest.Samples = o.Samples
	}
	for _, n := range worlds {
		if err := allReduceWorld(ctx, o, contest, n, sizes, emit); err != nil {
			return err
		}
	}
	return nil
}

func allReduceWorld(ctx context.Context, o Options, contest Contest, n int, sizes []int64, emit func(Row) error) (err error) {
	ours, err := startRing(ctx, n)
	if err != nil {
		return err
	}
	all := []Contestant{ours}
	defer func() {
		if closeErr := closeAll(all); err == nil {
			err = closeErr
		}
	}()
	if o.Peers {
		all = append(all, startPeers(ctx, o, n)...)
	}
	for _, size := range sizes {
		rows, err := contest.Run(ctx, Params{"n": n, "bytes": size}, all)
		if err != nil {
			return err
		}
		for _, row := range rows {
			// Algorithmic bandwidth in GB/s: bytes / time.
			row.Params = Params{"n": n, "bytes": size, "algbw_gbs": float64(size) / row.Median / 1e3}
			if err := emit(row); err != nil {
				return err
			}
		}
	}
	return nil
}
