package mesh

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// The functions of processes: all ranks of a replica, and one of them.
const (
	workerName = "mesh-replica"
	rankName   = "mesh-rank"
)

// shards is how many ranks hold parts of one copy of the model; shardSize is
// how much of it each.
const (
	shards    = 2
	shardSize = 1500
)

// stepTimeout bounds each wait of a step; where ranks are apart it never helps.
const stepTimeout = 8 * time.Second

// order is what a replica is told.
type order struct {
	Name       string
	Lighthouse string

	// Of a process that is one rank.
	Shard      int
	GroupStore string // host:port, for the ranks of the replica
	Apart      bool   // the ranks share nothing but their replica: no shard group would notice a death
}

// progress is a line that a rank writes after every commit.
type progress struct {
	Shard        int
	Step         int64
	QuorumID     int64
	Participants int    // what the replicate dimension's group says
	Mesh         string // what the mesh shows
	Hash         string // of the shard's parameters
	Heals        uint64
	Fault        string
}

// replica is one process: all ranks of a replica, so that they die together.
func replica(ctx context.Context, w spawn.Worker) error {
	var o order
	if err := json.Unmarshal(w.Args, &o); err != nil {
		return err
	}
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = server.Run(ctx) })
	out := &output{enc: json.NewEncoder(os.Stdout)}
	errs := make([]error, shards)
	var ranks sync.WaitGroup
	for shard := range shards {
		ranks.Go(func() {
			errs[shard] = trainShard(ctx, o, shard, server.Addr(), out)
		})
	}
	ranks.Wait()
	cancel()
	return errors.Join(errs...)
}

// single is one process: one rank of a replica. It ends when another one does,
// since a replica stands or falls as a whole.
func single(ctx context.Context, w spawn.Worker) error {
	var o order
	if err := json.Unmarshal(w.Args, &o); err != nil {
		return err
	}
	return trainShard(ctx, o, o.Shard, o.GroupStore, &output{enc: json.NewEncoder(os.Stdout)})
}

// output is the process's standard output, a line at a time.
type output struct {
	sync.Mutex

	enc *json.Encoder
}

func (o *output) write(p progress) {
	o.Lock()
	defer o.Unlock()
	_ = o.enc.Encode(p) // the parent is gone, and so are we soon
}

// rank is one rank of a replica: a shard of the model.
type rank struct {
	shard  int
	name   string
	m      *manager.Manager
	mesh   *dist.Mesh
	params []float32 // this shard's
	whole  []float32 // gathered for the forward pass
	grads  []float32 // of the whole model, from this rank's batch
	mine   []float32 // this shard's, of all batches
	apart  bool
}

// backend is one by which a busy machine is no dead peer: no test here lets a link fall silent.
func backend() *tcp.Backend { return tcp.New(tcp.Options{BeatTimeout: patience}) }

func trainShard(ctx context.Context, o order, shard int, groupStore string, out *output) error {
	r := &rank{
		shard: shard, name: o.Name, params: make([]float32, shardSize), whole: make([]float32, shards*shardSize),
		grads: make([]float32, shards*shardSize), mine: make([]float32, shardSize),
	}
	for i := range r.params {
		r.params[i] = float32(len(o.Name)*shard + i)
	}
	inner := pg.NewGroup(backend())
	defer inner.Close() //nolint:errcheck // the process ends
	config := pg.Config{
		StoreAddress: groupStore + "/shard", Rank: shard, Cluster: o.Name, QuorumID: 1, Timeout: 20 * time.Second,
	}
	for i := range shards {
		config.ReplicaIDs = append(config.ReplicaIDs, fmt.Sprintf("%s.%d", o.Name, i))
	}
	if err := inner.Configure(ctx, config); err != nil {
		return err
	}
	timeout := stepTimeout
	if r.apart = o.Apart; r.apart {
		timeout = 4 * patience
	}
	m, err := manager.New(manager.Config{
		ReplicaID: o.Name, Lighthouse: []string{o.Lighthouse}, GroupRank: shard, GroupWorldSize: shards,
		GroupStore: groupStore + "/manager", StepTimeout: timeout, HealTimeout: max(timeout, 20*time.Second),
		Backend: backend(), Log: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	r.m = m
	err = m.Register("shard", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(r.params)}}
	}, nil)
	if err != nil {
		return err
	}
	r.mesh, err = dist.NewMesh(dist.MeshDim{Name: "replicate", Group: m.Group()}, dist.MeshDim{Name: "shard", Group: inner})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = m.Run(ctx) })
	defer m.Close() //nolint:errcheck // the process ends
	for {
		if err := r.step(ctx, out); err != nil {
			return err
		}
	}
}

// step is one turn of a fully sharded, replicated training loop: it knows the
// groups from the mesh alone.
func (r *rank) step(ctx context.Context, out *output) error {
	shard, err := r.mesh.Group("shard")
	if err != nil {
		return err
	}
	replicate, err := r.mesh.Group("replicate")
	if err != nil {
		return err
	}
	if err := r.m.StartQuorum(ctx); err != nil {
		return err
	}
	if r.apart {
		copy(r.whole[r.shard*shardSize:], r.params)
	} else if err := shard.AllGatherIntoTensor(ctx, tensor.Of(r.params), tensor.Of(r.whole)); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond) // the forward and backward pass
	for i := range r.grads {
		r.grads[i] = r.whole[i]*0.01 + float32((int(r.m.Step())+i+len(r.name)+r.shard)%7)
	}
	if r.apart {
		copy(r.mine, r.grads[r.shard*shardSize:])
	} else if err := shard.ReduceScatterTensor(ctx, tensor.Of(r.grads), tensor.Of(r.mine), tensor.Avg); err != nil {
		return err
	}
	if err := replicate.AllReduce(ctx, tensor.Of(r.mine), tensor.Avg); err != nil { // errors go to the manager
		return err
	}
	participants := replicate.Size()
	ok, err := r.m.ShouldCommit(ctx)
	if err != nil || !ok {
		return err
	}
	for i := range r.params {
		r.params[i] -= 0.1 * r.mine[i]
	}
	sum := sha256.Sum256(tensor.Of(r.params).Bytes())
	out.write(progress{
		Shard: r.shard, Step: r.m.Step(), QuorumID: r.m.QuorumID(), Participants: participants,
		Mesh: r.mesh.String(), Hash: fmt.Sprintf("%x", sum[:8]), Heals: r.m.Stats().Heals,
	})
	return nil
}
