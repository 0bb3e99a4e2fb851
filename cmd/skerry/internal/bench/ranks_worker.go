package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// WorkerAllReduce is the name under which main registers AllReduceWorker.
const WorkerAllReduce = "bench-allreduce"

// rankServer is one rank of ours.
type rankServer struct {
	args   rankKind
	tls    *store.TLS
	rank   int
	ids    []string
	quorum int64
	group  *pg.Group
	child  *baby.Backend // of the group, or nil
	out    *json.Encoder
	bufs   map[string][]byte
	steps  map[task]func(context.Context) error // of tasks without Iters
}

// taskOps numbers the ops for the broadcast of a task.
func taskOps() []string {
	return []string{opAllReduce, opReduceScatter, opAllGather, opAllToAll, opBroadcast, opNew, opKept, opJoin, opStep, opStepLarge, opStepHalf, opStepLow}
}

// AllReduceWorker is one rank: it connects, and runs the tasks that rank 0 reads
// from its standard input.
func AllReduceWorker(ctx context.Context, w spawn.Worker) error {
	s := &rankServer{rank: w.Rank, out: json.NewEncoder(os.Stdout), bufs: map[string][]byte{}, steps: map[task]func(context.Context) error{}}
	if err := json.Unmarshal(w.Args, &s.args); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	for i := range w.WorldSize {
		s.ids = append(s.ids, fmt.Sprintf("bench_%d", i))
	}
	var err error
	if s.tls, err = openTLS(s.args.TLS); err != nil {
		return err
	}
	if s.group, err = s.fresh(); err != nil {
		return err
	}
	defer func() { s.group.Close() }()
	if err := s.configure(ctx, s.group); err != nil {
		return err
	}
	if s.args.Storm > 0 {
		return s.stormUntilKilled(ctx)
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	return s.endTogether(ctx, w.WorldSize)
}

func (s *rankServer) fresh() (*pg.Group, error) {
	if s.args.Child == noChild {
		return pg.NewGroup(tcp.New(tcp.Options{Transport: s.args.Transport})), nil
	}
	var err error
	if s.child, err = baby.New(baby.Options{Backend: tcp.Name, Stderr: os.Stderr}); err != nil {
		return nil, err
	}
	return pg.NewGroup(s.child), nil
}

// configure makes g the group of the next quorum.
func (s *rankServer) configure(ctx context.Context, g *pg.Group) error {
	s.quorum++
	return g.Configure(ctx, pg.Config{
		StoreAddress: fmt.Sprintf("%s/%d", s.args.Store, s.quorum), ReplicaIDs: s.ids, Rank: s.rank,
		Cluster: "bench", QuorumID: s.quorum, GroupWorldSize: 1, TLS: s.tls, Timeout: 10 * time.Minute,
	})
}

// endTogether waits until all ranks have come so far: to the last op's slower
// ranks, one that closes its links is one that died.
func (s *rankServer) endTogether(ctx context.Context, n int) error {
	st, err := store.Open(ctx, s.args.Store+"/end", store.ClientConfig{TLS: s.tls})
	if err != nil {
		return err
	}
	defer st.Close()
	ended, err := st.Add(ctx, "ended", 1)
	if err != nil {
		return err
	}
	if ended == int64(n) {
		return st.Set(ctx, "all", nil)
	}
	return st.Wait(ctx, "all")
}

// serve broadcasts each task from rank 0, runs it, and lets rank 0 answer.
func (s *rankServer) serve(ctx context.Context) error {
	in := bufio.NewScanner(os.Stdin)
	for {
		order := make([]int64, 3)
		if s.rank == 0 && in.Scan() {
			var t task
			if err := json.Unmarshal(in.Bytes(), &t); err != nil {
				return fmt.Errorf("read task: %w", err)
			}
			order[0], order[1], order[2] = t.Bytes, t.Iters, int64(slices.Index(taskOps(), t.Op))
		}
		if err := s.group.Broadcast(ctx, tensor.Of(order), 0); err != nil {
			return err
		}
		if order[0] == 0 {
			return nil
		}
		seconds, err := s.run(ctx, task{Bytes: order[0], Iters: order[1], Op: taskOps()[order[2]]})
		if err != nil {
			return err
		}
		if s.rank == 0 {
			if err := s.out.Encode(timing{Seconds: seconds}); err != nil {
				return err
			}
		}
	}
}

// run runs one task and returns its seconds.
func (s *rankServer) run(ctx context.Context, t task) (float64, error) {
	once, err := s.op(t)
	if err != nil {
		return 0, err
	}
	if once == nil {
		return s.reconfigure(ctx, t)
	}
	if err := once(ctx); err != nil { // warm
		return 0, err
	}
	if err := s.group.Barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range t.Iters {
		if err := once(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

// op is what t does once; nil for a reconfiguration.
func (s *rankServer) op(t task) (func(context.Context) error, error) {
	n := int64(len(s.ids))
	slot := max(t.Bytes/4/n, 1) * 4
	switch t.Op {
	case opAllReduce:
		x, err := s.tensor("in", t.Bytes)
		return func(ctx context.Context) error { return s.group.AllReduce(ctx, x, tensor.Sum) }, err
	case opBroadcast:
		x, err := s.tensor("in", t.Bytes)
		return func(ctx context.Context) error { return s.group.Broadcast(ctx, x, 0) }, err
	case opReduceScatter:
		in, out, err := s.pair(slot*n, slot)
		return func(ctx context.Context) error { return s.group.ReduceScatterTensor(ctx, in, out, tensor.Sum) }, err
	case opAllGather:
		in, out, err := s.pair(slot, slot*n)
		return func(ctx context.Context) error { return s.group.AllGatherIntoTensor(ctx, in, out) }, err
	case opAllToAll:
		in, out, err := s.pair(slot*n, slot*n)
		return func(ctx context.Context) error { return s.group.AllToAllSingle(ctx, in, out, pg.Splits{}) }, err
	case opStep, opStepLarge, opStepHalf, opStepLow:
		return s.step(t)
	}
	return nil, nil
}

func (s *rankServer) pair(in, out int64) (x, y tensor.Tensor, err error) {
	if x, err = s.tensor("in", in); err != nil {
		return x, y, err
	}
	y, err = s.tensor("out", out)
	return x, y, err
}

// tensor is float32 memory that is kept from task to task.
func (s *rankServer) tensor(name string, bytes int64) (tensor.Tensor, error) {
	if int64(len(s.bufs[name])) < bytes {
		var x tensor.Tensor
		if s.args.Child == childAlloc {
			var err error
			if x, err = s.child.Alloc(tensor.Float32, int(bytes/4)); err != nil {
				return tensor.Tensor{}, err
			}
		} else {
			x = tensor.New(tensor.Float32, int(bytes/4))
		}
		s.bufs[name] = x.Bytes()
	}
	return tensor.FromBytes(tensor.Float32, s.bufs[name][:bytes], int(bytes/4))
}
