package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	pb "github.com/skerry-ft/skerry/internal/wire/torchftpb"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// The envelope: a follower notices after raft's heartbeat timeout at the least and
// twice that at the most, as it is drawn at random; an election is two or three
// fsyncs and round trips; the new leader's first entry one more; then a quorum as
// above. With 100 ms: 0.1 to 0.25 s, now and then twice when votes split.

const (
	failoverReplicas = 8
	failoverKills    = 20
	// failoverRest is how long the cluster is left alone after a server is back:
	// it must have caught up, or the next kill would leave no majority.
	failoverRest = 300 * time.Millisecond
	// failoverTry bounds one call: a server that is gone may not hold a round up.
	failoverTry = 10 * time.Second
)

// runFailover kills the leader of three durable servers, again and again, while
// replicas ask through torchft's API without a pause, and measures until all of
// them have a quorum that was formed after the kill.
func runFailover(ctx context.Context, o Options, emit emitFunc) error {
	kills := cmp.Or(o.Samples, failoverKills)
	if o.Peers {
		o.note("not measured: torchft: its lighthouse is one process; killed, it ends the run")
	}
	for _, n := range o.worlds(failoverReplicas) {
		for _, fast := range []bool{true, false} {
			if err := failoverRow(ctx, n, kills, fast, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

func failoverRow(ctx context.Context, n, kills int, fast bool, emit emitFunc) (err error) {
	cluster, err := startServers(ctx, serverOptions{count: 3, minReplicas: n, durable: true, fast: fast})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var conns []*grpc.ClientConn
	for _, addr := range cluster.addrs {
		c, err := dial(addr, 1)
		if err != nil {
			return err
		}
		defer closeConns(c) //nolint:errcheck // the processes end with them
		conns = append(conns, c...)
	}
	timing := "default"
	if fast {
		timing = "fast"
	}
	var samples []float64
	last := int64(0)
	for range kills {
		// The quorum is asked for all the time; a kill falls between two answers.
		for range 3 {
			if last, err = everybody(ctx, conns, n, last); err != nil {
				return err
			}
		}
		leads, err := cluster.leader(ctx)
		if err != nil {
			return err
		}
		cluster.kill(leads)
		killed := time.Now()
		if last, err = everybody(ctx, conns, n, last); err != nil {
			return err
		}
		samples = append(samples, float64(time.Since(killed).Microseconds())/1e3)
		if err := cluster.start(ctx, leads); err != nil {
			return err
		}
		time.Sleep(failoverRest)
	}
	emit(Contest{Bench: "failover", Unit: "ms"}.row("skerry", Params{"n": n, "servers": 3, "timing": timing}, samples))
	return nil
}

// everybody lets all replicas ask all servers at once, again until each has an
// answer, and returns the id of the quorum that all are in. Ids never fall.
func everybody(ctx context.Context, conns []*grpc.ClientConn, n int, last int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ids := make([]int64, n)
	var all errgroup.Group
	for i := range n {
		all.Go(func() (err error) {
			ids[i], err = anyServer(ctx, conns, i)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	for i, id := range ids {
		if id != ids[0] || id < last {
			return 0, fmt.Errorf("replica %d has quorum %d, replica 0 has %d; the last one was %d", i, id, ids[0], last)
		}
	}
	return ids[0], nil
}

// anyServer asks all servers at once, and takes the first answer: what a client
// does that does not know who leads. A call that a server ends is made again.
func anyServer(ctx context.Context, conns []*grpc.ClientConn, i int) (int64, error) {
	ctx, endAll := context.WithCancel(ctx)
	defer endAll()
	answers := make(chan int64, len(conns))
	var asked sync.WaitGroup
	for _, c := range conns {
		client := pb.NewLighthouseServiceClient(c)
		asked.Go(func() {
			for ctx.Err() == nil {
				try, cancel := context.WithTimeout(ctx, failoverTry)
				got, err := client.Quorum(try, &pb.LighthouseQuorumRequest{Requester: askerMember(i, 0)})
				cancel()
				if err == nil {
					answers <- got.GetQuorum().GetQuorumId()
					endAll()
				}
				_ = backoff.Sleep(ctx, 2*time.Millisecond) // the loop looks at ctx
			}
		})
	}
	asked.Wait()
	select {
	case id := <-answers:
		return id, nil
	default:
		return 0, context.Cause(ctx)
	}
}
