// Own is the smallest job of one's own: every replica fits a line to points that it measures,
// other ones than the others', and any of them may be killed. Copy it, and put your model
// where the line is.
//
//	go run ./cmd/lighthouse
//	REPLICA_GROUP_ID=a go run ./examples/own
//	REPLICA_GROUP_ID=b go run ./examples/own
//
// All else is taken from the environment too: docs/VARIABLES.md. docs/TRAINING.md says how it
// runs on three machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// steps are those of the whole run: the same on all replicas.
const steps = 200

// A job is what is trained: here a line, y = a·x + b.
type job struct {
	line  []float32 // a, b: what a replica that comes back must have
	grad  []float32
	taken int64 // updates that line has had; part of the state
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "own:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg := manager.Config{Backend: tcp.New(tcp.Options{})}
	if err := cfg.FromEnv(); err != nil {
		return err
	}
	if len(cfg.Lighthouse) == 0 {
		cfg.Lighthouse = []string{"127.0.0.1:29510"}
	}
	cfg.GroupWorldSize = max(cfg.GroupWorldSize, 1)
	m, err := manager.New(cfg)
	if err != nil {
		return err
	}
	j := &job{line: make([]float32, 2), grad: make([]float32, 2)}
	// Everything that a step changes is registered: parameters, the optimizer's state, the
	// count of updates, what the next batch depends on.
	if err := m.Register("job", j.save, j.load); err != nil {
		return errors.Join(err, m.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		err := j.train(ctx, m)
		if errors.Is(err, manager.ErrDrained) {
			return nil
		}
		return err
	})
	drain := make(chan os.Signal, 1) // SIGTERM: finish the step, and leave so that the others lose none
	signal.Notify(drain, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(drain)
	go func() {
		select {
		case <-drain:
			m.Drain()
		case <-ctx.Done():
		}
	}()
	return g.Wait()
}

// train runs all steps, and stays a while for a replica that is behind.
func (j *job) train(ctx context.Context, m *manager.Manager) error {
	for j.taken < steps {
		if err := j.step(ctx, m); err != nil {
			return err
		}
	}
	fmt.Printf("step %d: %v\n", j.taken, j)
	return m.Finish(ctx, 3*time.Second, func(ctx context.Context) error { return j.step(ctx, m) })
}

// step tries one step. Errors of collectives are not returned: the step is discarded then, on
// all replicas, and tried again with those that are left.
func (j *job) step(ctx context.Context, m *manager.Manager) error {
	if err := m.StartQuorum(ctx); err != nil {
		return err
	}
	j.backward(m.ReplicaID())
	time.Sleep(10 * time.Millisecond) // as if it were a larger model
	if err := m.Group().AllReduce(ctx, tensor.Of(j.grad), tensor.Avg); err != nil {
		return err // only if ctx has ended
	}
	committed, err := m.ShouldCommit(ctx)
	if err != nil || !committed || j.taken >= steps {
		return err
	}
	if j.update(); j.taken%50 == 0 {
		fmt.Printf("step %d, %d replicas: %v\n", j.taken, m.NumParticipants(), j)
	}
	return nil
}

// backward makes gradients of a batch: points of y = 3x - 1, measured with errors, other
// ones on each replica. So no replica finds by itself what the average finds. A replica is
// known by its name, the part of its id before the colon, which stays when it comes back.
func (j *job) backward(replica string) {
	clear(j.grad)
	const batch = 32
	name, _, _ := strings.Cut(replica, ":")
	h := fnv.New64a()
	h.Write([]byte(name)) // it has no error
	r := rand.New(rand.NewPCG(uint64(j.taken), h.Sum64()))
	for range batch {
		x := r.Float32()*4 - 2
		y := 3*x - 1 + float32(r.NormFloat64())/2
		off := j.line[0]*x + j.line[1] - y
		j.grad[0] += 2 * off * x / batch
		j.grad[1] += 2 * off / batch
	}
}

// update is the optimizer's step, by gradients that are the same on all replicas.
func (j *job) update() {
	for i, d := range j.grad {
		j.line[i] -= 0.05 * d
	}
	j.taken++
}

// String has all bits of the line, so that two texts are equal only if two lines are.
func (j *job) String() string { return fmt.Sprintf("y = %v x + %v", j.line[0], j.line[1]) }

// save gives views of the live memory: a heal reads them at a donor, and writes into them at
// the replica that heals.
func (j *job) save() checkpoint.State {
	return checkpoint.State{
		Tensors: map[string]tensor.Tensor{"line": tensor.Of(j.line)},
		Meta:    map[string]string{"taken": strconv.FormatInt(j.taken, 10)},
	}
}

// load is told when a heal has written the tensors.
func (j *job) load(s checkpoint.State) (err error) {
	j.taken, err = strconv.ParseInt(s.Meta["taken"], 10, 64)
	return err
}
