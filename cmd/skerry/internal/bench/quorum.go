package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire"
	pb "github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
)

// The envelope: a gRPC call over loopback is about 55 µs. A quorum that stands
// is n calls at once, one decision and one check of leadership, without a write; one
// that changes adds one raft commit: 0.05 ms in memory, 0.28 ms with one fsync.

// runQuorum measures the time until all n replicas have their answer, through
// torchft's API, which asks every step.
func runQuorum(ctx context.Context, o Options, emit func(Row) error) error {
	worlds := o.N
	if worlds == nil {
		worlds = []int{2, 8}
	}
	contest := Contest{Bench: "quorum", Unit: "us", Samples: 200, Warmup: 20}
	if o.Samples > 0 {
		contest.Samples = o.Samples
	}
	if o.Peers {
		o.note("not measured: torchft: its lighthouse is measured by hand, see docs/bench/README.md")
	}
	for _, n := range worlds {
		for _, durable := range []bool{false, true} {
			if err := quorumRows(ctx, contest, n, durable, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

func quorumRows(ctx context.Context, contest Contest, n int, durable bool, emit func(Row) error) (err error) {
	a, err := startAskers(ctx, n, durable)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := a.Close(); err == nil {
			err = closeErr
		}
	}()
	for _, change := range []bool{false, true} {
		p := Params{"n": n, "servers": 1, "durable": durable, "change": change}
		rows, err := contest.Run(ctx, p, []Contestant{a})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := emit(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// askers are n replicas of a torchft job, and the lighthouse they ask.
type askers struct {
	conns []*grpc.ClientConn
	stop  context.CancelFunc
	ended chan error
	dir   string
}

func startAskers(ctx context.Context, n int, durable bool) (*askers, error) {
	cfg := lighthouse.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.Rules.MinReplicas = n
	a := &askers{ended: make(chan error, 1)}
	if durable {
		dir, err := os.MkdirTemp("", "skerry-bench-")
		if err != nil {
			return nil, err
		}
		a.dir, cfg.DataDir = dir, dir
	}
	server, err := lighthouse.New(cfg)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(a.dir))
	}
	serveCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	go func() { a.ended <- server.Run(serveCtx) }()
	for range n {
		options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		conn, err := grpc.NewClient(server.Addr().String(), options...)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.conns = append(a.conns, conn)
	}
	return a, nil
}

// Impl names us.
func (a *askers) Impl() string { return "skerry" }

// Sample lets all replicas ask at once and measures until the last has its
// answer, in microseconds.
func (a *askers) Sample(ctx context.Context, p Params) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	failures := int64(0)
	if p["change"].(bool) {
		failures = 1 // a failed commit asks for a new quorum id
	}
	var all errgroup.Group
	start := time.Now()
	for i, conn := range a.conns {
		all.Go(func() error {
			req := &pb.LighthouseQuorumRequest{Requester: &pb.QuorumMember{
				ReplicaId: fmt.Sprintf("bench_%d", i), Address: "http://127.0.0.1:1",
				StoreAddress: "127.0.0.1:1", Step: 1, WorldSize: 1, CommitFailures: failures,
			}}
			_, err := pb.NewLighthouseServiceClient(conn).Quorum(ctx, req)
			return err
		})
	}
	err := all.Wait()
	return float64(time.Since(start).Microseconds()), err
}

// Close ends the replicas and the lighthouse.
func (a *askers) Close() error {
	var errs []error
	for _, conn := range a.conns {
		errs = append(errs, conn.Close())
	}
	a.stop()
	errs = append(errs, <-a.ended, os.RemoveAll(a.dir))
	return errors.Join(errs...)
}
