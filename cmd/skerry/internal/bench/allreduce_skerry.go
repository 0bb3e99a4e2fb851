package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/train/spawn"
)

// WorkerAllReduce is the name under which main registers AllReduceWorker.
const WorkerAllReduce = "bench-allreduce"

// allReduceArgs goes to every worker.
type allReduceArgs struct {
	Store string `json:"store"`
}

// workersEnd bounds how long workers are given to end by themselves.
const workersEnd = 5 * time.Second

// ring is our contestant: n processes and the store they met in.
type ring struct {
	*lineClient

	procs    []*spawn.Process
	tasks    io.Closer // rank 0's standard input: its end ends all
	endStore func() error
}

// startRing starts n workers, which connect and wait for tasks.
func startRing(ctx context.Context, n int) (*ring, error) {
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		return nil, err
	}
	storeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Run(storeCtx) }()
	r := &ring{endStore: func() error {
		stop()
		return <-served
	}}
	args, err := json.Marshal(allReduceArgs{Store: fmt.Sprintf("%s/bench/%d", server.Addr(), n)})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	taskR, taskW := io.Pipe()
	outR, outW := io.Pipe()
	r.lineClient = newLineClient(taskW, outR)
	r.tasks = taskW
	for rank := range n {
		o := spawn.Options{Args: args, Stderr: os.Stderr}
		if rank == 0 {
			o.Stdin, o.Stdout = taskR, outW
		}
		p, err := spawn.Start(spawn.Worker{Name: WorkerAllReduce, Rank: rank, WorldSize: n}, o)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.procs = append(r.procs, p)
	}
	go func() { // ends with rank 0, which Close sees to
		<-r.procs[0].Done()
		outW.Close()
	}()
	return r, nil
}

// Impl names us.
func (r *ring) Impl() string { return "skerry" }

// Sample measures microseconds per all-reduce.
func (r *ring) Sample(ctx context.Context, p Params) (float64, error) {
	return r.perOp(ctx, p["bytes"].(int64))
}

// Close tells the workers to end, kills those that do not, and ends the store.
func (r *ring) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), workersEnd)
	defer cancel()
	var errs []error
	if r.tasks != nil {
		errs = append(errs, r.tasks.Close())
	}
	for _, p := range r.procs {
		errs = append(errs, p.Wait(ctx))
		p.Kill()
	}
	return errors.Join(append(errs, r.endStore())...)
}

// AllReduceWorker is one rank: it connects, and runs the tasks that rank 0 reads
// from its standard input.
func AllReduceWorker(ctx context.Context, w spawn.Worker) error {
	var args allReduceArgs
	if err := json.Unmarshal(w.Args, &args); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	g := pg.NewGroup(tcp.New(tcp.Options{}))
	defer g.Close()
	ids := make([]string, w.WorldSize)
	for i := range ids {
		ids[i] = fmt.Sprintf("bench_%d", i)
	}
	c := pg.Config{
		StoreAddress: args.Store, ReplicaIDs: ids, Rank: w.Rank,
		Cluster: "bench", QuorumID: 1, GroupWorldSize: 1, Timeout: 10 * time.Minute,
	}
	if err := g.Configure(ctx, c); err != nil {
		return err
	}
	if err := serveTasks(ctx, g, w.Rank); err != nil {
		return err
	}
	return endTogether(ctx, args.Store, w.WorldSize)
}

// endTogether waits until all ranks have come so far: to the last op's slower
// ranks, one that closes its links is one that died.
func endTogether(ctx context.Context, address string, n int) error {
	s, err := store.Open(ctx, address+"/end", store.ClientConfig{})
	if err != nil {
		return err
	}
	defer s.Close()
	ended, err := s.Add(ctx, "ended", 1)
	if err != nil {
		return err
	}
	if ended == int64(n) {
		return s.Set(ctx, "all", nil)
	}
	return s.Wait(ctx, "all")
}

// serveTasks broadcasts each task from rank 0, runs it, and lets rank 0 answer.
func serveTasks(ctx context.Context, g *pg.Group, rank int) error {
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var buf []float32
	for {
		order := make([]int64, 2)
		if rank == 0 && in.Scan() {
			var t task
			if err := json.Unmarshal(in.Bytes(), &t); err != nil {
				return fmt.Errorf("read task: %w", err)
			}
			order[0], order[1] = t.Bytes, t.Iters
		}
		if err := g.Broadcast(ctx, pg.Of(order), 0); err != nil {
			return err
		}
		if order[0] == 0 {
			return nil
		}
		if need := int(order[0] / 4); len(buf) < need {
			buf = make([]float32, need)
		}
		seconds, err := timeAllReduce(ctx, g, buf[:order[0]/4], int(order[1]))
		if err != nil {
			return err
		}
		if rank == 0 {
			if err := out.Encode(timing{Seconds: seconds}); err != nil {
				return err
			}
		}
	}
}

func timeAllReduce(ctx context.Context, g *pg.Group, buf []float32, iters int) (float64, error) {
	t := pg.Of(buf)
	if err := g.AllReduce(ctx, t, pg.Sum); err != nil {
		return 0, err
	}
	if err := g.Barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range iters {
		if err := g.AllReduce(ctx, t, pg.Sum); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}
