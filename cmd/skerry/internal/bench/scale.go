package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/crowd"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/usage"
	"github.com/skerry-ft/skerry/internal/backoff"
)

// The envelope, for n = 10,000 sessions at one server:
//
//	join      300 B up, 400 B down each (its part, not the list): 7 MB. A message
//	          through gRPC costs 10 to 20 µs of CPU on either side: 4 n of them
//	          (join and answer, here and there) are 0.4 to 0.8 s of CPU.
//	decide    one pass over n records, about 100 ns each, after every 256 inputs:
//	          40 passes of 1 ms.
//	ledger    one entry of n members, 300 B each as JSON: 3 MB, 30 ms to encode and
//	          as much to decode, one fsync.
//	beats     the interval grows so that all make at most 20,000 a second; 12,500
//	          at n = 10,000 (800 ms). At 20 to 40 µs each: 0.25 to 0.5 of a core.
//	memory    a session is three goroutines (8 KiB each), its queue (2 KiB), a gRPC
//	          stream (5 KiB), its record (1 KiB): 35 KiB, 350 MiB in all.
//
// torchft's API at n = 1,000: n answers of n members of 80 B each are 80 MB.

const (
	scaleSessions = 10_000
	scaleConns    = 64
	scaleRounds   = 5
	scaleBeats    = 10 // samples of a second
	scaleAskers   = 1_000
	scaleAskConns = 32
)

// runScale measures one server with thousands of replicas. It is a process of its
// own: only its time and memory count.
func runScale(ctx context.Context, o Options, emit emitFunc) error {
	if err := moreFiles(); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	rounds := cmp.Or(o.Samples, scaleRounds)
	for _, n := range o.worlds(scaleSessions) {
		if err := scaleRows(ctx, n, rounds, emit); err != nil {
			return fmt.Errorf("%d sessions: %w", n, err)
		}
	}
	for _, n := range o.worlds(scaleAskers) {
		if err := scaleAskRows(ctx, o, n, rounds, emit); err != nil {
			return fmt.Errorf("%d replicas through torchft's API: %w", n, err)
		}
	}
	return nil
}

func scaleRows(ctx context.Context, n, rounds int, emit emitFunc) (err error) {
	cluster, err := startServers(ctx, serverOptions{count: 1, minReplicas: n, durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	pid := cluster.procs[0].PID()
	conns, err := dial(cluster.addrs[0], min(scaleConns, n))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConns(conns)) }()
	replicas, err := crowd.Open(ctx, conns, n)
	if err != nil {
		return err
	}
	defer replicas.Close()
	p := Params{"n": n, "conns": len(conns), "durable": true}
	// Who opens a session puts the first quorum off by a heartbeat timeout: not
	// what is measured.
	if err := backoff.Sleep(ctx, replicas.Quiet()*3/2); err != nil {
		return err
	}
	var took, cpu []float64
	for range rounds {
		var d time.Duration
		used, err := usage.During(pid, func() (err error) {
			d, err = replicas.JoinAll(ctx)
			return err
		})
		if err != nil {
			return err
		}
		took, cpu = append(took, d.Seconds()*1e3), append(cpu, used.Seconds()*1e3)
		if err := backoff.Sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	emit(Contest{Bench: "scale-join", Unit: "ms"}.row("skerry", p, took),
		Contest{Bench: "scale-join-cpu", Unit: "ms"}.row("skerry", p, cpu))
	return beatRows(ctx, replicas, pid, min(scaleBeats, 2*rounds), p, emit)
}

// beatRows measure a second at a time while nothing happens but beats.
func beatRows(ctx context.Context, replicas *crowd.Crowd, pid, samples int, p Params, emit emitFunc) error {
	var cores, rate []float64
	for range samples {
		sent, began := replicas.Beats(), time.Now()
		used, err := usage.During(pid, func() error { return backoff.Sleep(ctx, time.Second) })
		if err != nil {
			return err
		}
		wall := time.Since(began).Seconds()
		cores = append(cores, used.Seconds()/wall)
		rate = append(rate, float64(replicas.Beats()-sent)/wall)
	}
	most, err := usage.Peak(pid)
	if err != nil {
		return err
	}
	if err := replicas.Failed(); err != nil {
		return fmt.Errorf("a session ended while it beat: %w", err)
	}
	emit(Contest{Bench: "scale-beats", Unit: "1/s"}.row("skerry", p, rate),
		Contest{Bench: "scale-beats-cpu", Unit: "cores"}.row("skerry", p, cores),
		Contest{Bench: "scale-memory", Unit: "MiB"}.row("skerry", p, []float64{most}))
	return nil
}

// scaleAskRows measure torchft's API, beside torchft's own lighthouse: the time
// until all have their answer, and the server's CPU for it.
func scaleAskRows(ctx context.Context, o Options, n, rounds int, emit emitFunc) error {
	cluster, err := startServers(ctx, serverOptions{count: 1, minReplicas: n})
	if err != nil {
		return err
	}
	conns := min(scaleAskConns, n)
	contest := Contest{Bench: "scale-ask", Unit: "us", Samples: rounds, Warmup: 1}
	return withAskers(ctx, o, cluster.asked(0), n, conns, true, func(all []Contestant) error {
		for _, change := range []bool{false, true} {
			p := Params{"n": n, "conns": conns, "change": change}
			rows, err := contest.Run(ctx, p, all)
			if err != nil {
				return err
			}
			for i, row := range rows {
				a := all[i].(*askers)
				emit(row, Contest{Bench: "scale-ask-cpu", Unit: "ms"}.row(row.Impl, p, a.cpu[contest.Warmup:]))
				a.cpu = nil
			}
		}
		return nil
	})
}
