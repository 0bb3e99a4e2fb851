package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/usage"
	"github.com/skerry-ft/skerry/internal/wire"
	pb "github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// askLimit bounds one round of questions.
const askLimit = 60 * time.Second

// askerBeat is how often a replica of torchft's beats.
const askerBeat = 100 * time.Millisecond

// unread is a gRPC codec that does not decode answers: who asks for a thousand
// replicas at once would spend more on reading than the server on writing.
type unread struct{}

// length is an answer that was not decoded.
type length struct{ bytes int }

// Marshal encodes a request.
func (unread) Marshal(v any) (mem.BufferSlice, error) {
	data, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal notes how long an answer is.
func (unread) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*length).bytes = data.Len()
	return nil
}

// Name is that of the codec which it stands in for.
func (unread) Name() string { return "proto" }

// dial opens connections to a server that are tried again at once when it comes
// back.
func dial(addr string, n int) ([]*grpc.ClientConn, error) {
	options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: 20 * time.Second, // thousands are opened at one time
		}))
	var conns []*grpc.ClientConn
	for range n {
		conn, err := grpc.NewClient("passthrough:///"+addr, options...)
		if err != nil {
			return nil, errors.Join(err, closeConns(conns))
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeConns(conns []*grpc.ClientConn) error {
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// asked is a lighthouse of ours or of theirs that is asked through torchft's API.
type asked struct {
	impl string
	addr string
	pid  int
	end  func() error
}

// askers are n replicas of a torchft job at one lighthouse.
type askers struct {
	asked

	n     int
	conns []*grpc.ClientConn // shared by the replicas
	cpu   []float64          // milliseconds of the lighthouse's process, its beats included; by sample
	stop  context.CancelFunc
	beats sync.WaitGroup
}

// withAskers connects n replicas, which share so many connections, to our lighthouse,
// and as many to torchft's own if peers are wanted and it is here. It lends both to f,
// and ends them with their lighthouses.
func withAskers(ctx context.Context, o Options, ours asked, n, conns int, beat bool, f func([]Contestant) error) (err error) {
	first, err := startAskers(ctx, ours, n, conns, beat)
	if err != nil {
		return err
	}
	all := []Contestant{first}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if o.Peers {
		if peer, err := torchftAskers(ctx, n, conns, beat); err != nil {
			o.note("not measured: %v", err)
		} else {
			all = append(all, peer)
		}
	}
	return f(all)
}

// torchftAskers are replicas at torchft's own lighthouse.
func torchftAskers(ctx context.Context, n, conns int, beat bool) (*askers, error) {
	theirs, err := startTorchft(ctx, n)
	if err != nil {
		return nil, err
	}
	return startAskers(ctx, theirs, n, conns, beat)
}

// startAskers connects n replicas. With beat they beat as torchft's managers do.
func startAskers(ctx context.Context, s asked, n, conns int, beat bool) (*askers, error) {
	all, err := dial(s.addr, conns)
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	a := &askers{asked: s, n: n, conns: all}
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	if beat {
		for c := range conns {
			a.beats.Go(func() { a.beat(ctx, c) })
		}
	}
	return a, nil
}

// beat beats for the replicas of one connection, spread over the interval.
func (a *askers) beat(ctx context.Context, c int) {
	mine := (a.n - c + len(a.conns) - 1) / len(a.conns)
	ticker := time.NewTicker(askerBeat / time.Duration(max(mine, 1)))
	defer ticker.Stop()
	client := pb.NewLighthouseServiceClient(a.conns[c])
	for i := c; ; i = (i + len(a.conns)) {
		if i >= a.n {
			i = c
		}
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = client.Heartbeat(try, &pb.LighthouseHeartbeatRequest{ReplicaId: askerID(i)}) // the next beat comes soon
		cancel()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func askerID(i int) string { return fmt.Sprintf("bench_%05d", i) }

func askerMember(i int, failures int64) *pb.QuorumMember {
	return &pb.QuorumMember{
		ReplicaId: askerID(i), Address: "http://127.0.0.1:29500", StoreAddress: "127.0.0.1:29501",
		Step: 1, WorldSize: 1, CommitFailures: failures,
	}
}

// Impl names the lighthouse.
func (a *askers) Impl() string { return a.impl }

// Sample lets all replicas ask at once and measures until the last has its
// answer, in microseconds.
func (a *askers) Sample(ctx context.Context, p Params) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	failures := int64(0)
	if p["change"].(bool) {
		failures = 1 // a failed commit asks for a new quorum id
	}
	var took time.Duration
	used, err := usage.During(a.pid, func() error {
		began := time.Now()
		err := a.ask(ctx, failures)
		took = time.Since(began)
		return err
	})
	a.cpu = append(a.cpu, used.Seconds()*1e3)
	return float64(took.Microseconds()), err
}

// ask lets all replicas ask at once, and waits for the last answer.
func (a *askers) ask(ctx context.Context, failures int64) error {
	var all errgroup.Group
	for i := range a.n {
		all.Go(func() error {
			var answer length
			err := a.conns[i%len(a.conns)].Invoke(ctx, pb.LighthouseService_Quorum_FullMethodName,
				&pb.LighthouseQuorumRequest{Requester: askerMember(i, failures)}, &answer, grpc.ForceCodecV2(unread{}))
			if least := a.n * len(askerID(i)); err == nil && answer.bytes < least {
				err = fmt.Errorf("an answer of %d bytes, want at least %d: not all are in it", answer.bytes, least)
			}
			return err
		})
	}
	return all.Wait()
}

// Close ends the replicas and their lighthouse.
func (a *askers) Close() error {
	a.stop()
	a.beats.Wait()
	return errors.Join(closeConns(a.conns), a.end())
}
