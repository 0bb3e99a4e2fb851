package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// stepTime is how long a step computes.
const stepTime = 20 * time.Millisecond

// fleet is replicas that train, and what they saw.
type fleet struct {
	t           *testing.T
	lighthouses []string
	running     sync.WaitGroup

	mu struct {
		sync.Mutex

		replicas []*member
		started  int
		members  map[int64]string // by quorum id: the one list that everybody saw
		wrong    []string         // what must not happen
		discards []string
		commits  int64 // of all
		step     int64 // the highest
		newest   int64 // quorum id
		lost     int   // sessions
	}
}

// member is one replica.
type member struct {
	name   string
	m      *manager.Manager
	params []float32
	newest int64 // quorum id it saw; guarded by the fleet's lock
	ended  chan struct{}
}

func newFleet(t *testing.T, lighthouses []string, replicas int) *fleet {
	t.Helper()
	f := &fleet{t: t, lighthouses: lighthouses}
	f.mu.members = make(map[int64]string)
	t.Cleanup(f.close)
	for range replicas {
		f.add()
	}
	return f
}

// add starts a replica.
func (f *fleet) add() {
	f.t.Helper()
	f.mu.Lock()
	f.mu.started++
	r := &member{name: fmt.Sprintf("replica-%03d", f.mu.started), params: make([]float32, 256), ended: make(chan struct{})}
	f.mu.Unlock()
	log := zerolog.Nop()
	if *verbose {
		log = zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Str("replica", r.name).Logger()
	}
	m, err := manager.New(manager.Config{
		ReplicaID: r.name, Lighthouse: f.lighthouses, StepTimeout: 30 * time.Second, HealTimeout: time.Minute,
		Backend: tcp.New(tcp.Options{BeatTimeout: 4 * time.Second}), OnEvent: func(e manager.Event) { f.saw(r, e) }, Log: log,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	r.m = m
	err = m.Register("params", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(r.params)}}
	}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.mu.replicas = append(f.mu.replicas, r)
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	f.running.Go(func() {
		defer cancel()
		if err := m.Run(ctx); err != nil && !errors.Is(err, manager.ErrDrained) {
			f.broke("%s: run: %v", r.name, err)
		}
	})
	f.running.Go(func() {
		defer close(r.ended)
		if err := r.train(ctx); err != nil && !errors.Is(err, manager.ErrDrained) && !errors.Is(err, manager.ErrClosed) {
			f.broke("%s: train: %v", r.name, err)
		}
		_ = m.Close() // what it says, Run returned
	})
}

// train steps until the replica is drained or closed.
func (r *member) train(ctx context.Context) error {
	grads := make([]float32, len(r.params))
	for {
		if err := r.m.StartQuorum(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(stepTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i := range grads {
			grads[i] = 1
		}
		_ = r.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // reported to the manager
		ok, err := r.m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		for i := range grads {
			if ok {
				r.params[i] += grads[i]
			}
		}
	}
}

// saw checks what a replica is told.
func (f *fleet) saw(r *member, e manager.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := e.(type) {
	case manager.QuorumFormed:
		list := strings.Join(e.Members, " ")
		if old, known := f.mu.members[e.QuorumID]; known && old != list {
			f.wrongLocked("quorum %d is %s, and %s", e.QuorumID, old, list)
		}
		if e.QuorumID < r.newest {
			f.wrongLocked("%s: quorum %d came after %d", r.name, e.QuorumID, r.newest)
		}
		f.mu.members[e.QuorumID] = list
		r.newest = e.QuorumID
		f.mu.newest = max(f.mu.newest, e.QuorumID)
	case manager.StepDiscarded:
		f.mu.discards = append(f.mu.discards, fmt.Sprintf("%s %s: %v", time.Now().Format("05.000"), r.name, e))
	case manager.StepCommitted:
		f.mu.commits++
		f.mu.step = max(f.mu.step, e.Step)
	case manager.LighthouseLost:
		f.mu.lost++
	}
}

func (f *fleet) wrongLocked(format string, args ...any) {
	f.mu.wrong = append(f.mu.wrong, fmt.Sprintf(format, args...))
}

func (f *fleet) broke(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrongLocked(format, args...)
}

// step is the highest step committed, and newest the highest quorum id seen.
func (f *fleet) at() (step, newest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.step, f.mu.newest
}

// awaitSteps waits until some more steps were committed.
func (f *fleet) awaitSteps(more int64) {
	f.t.Helper()
	from, _ := f.at()
	testkit.EventuallyNil(f.t, fmt.Sprintf("%d more steps are committed", more), func() error {
		if step, _ := f.at(); step < from+more {
			return fmt.Errorf("step %d after %d", step, from)
		}
		return nil
	})
}

// awaitMembers waits until everybody of now is in one quorum.
func (f *fleet) awaitMembers() {
	f.t.Helper()
	testkit.EventuallyNil(f.t, "all replicas are in one quorum", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := f.mu.members[f.mu.newest]
		for _, r := range f.mu.replicas {
			if r.newest != f.mu.newest || !strings.Contains(list, r.name) {
				return fmt.Errorf("%s is in quorum %d, the newest is %d with %s", r.name, r.newest, f.mu.newest, list)
			}
		}
		return nil
	})
}

// rest makes one replica leave and one join, every second, until ctx ends.
func (f *fleet) churn(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		oldest := f.mu.replicas[0]
		f.mu.replicas = slices.Delete(f.mu.replicas, 0, 1)
		f.mu.Unlock()
		oldest.m.Drain()
		f.add()
	}
}

// check reports what went wrong.
func (f *fleet) check() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.mu.wrong {
		f.t.Error(w)
	}
	for _, d := range f.mu.discards {
		f.t.Errorf("discarded: %s", d)
	}
	f.t.Logf("%d replicas in all, %d quorums, %d commits up to step %d, %d sessions lost",
		f.mu.started, len(f.mu.members), f.mu.commits, f.mu.step, f.mu.lost)
}

// close ends all replicas at once.
func (f *fleet) close() {
	f.mu.Lock()
	all := slices.Clone(f.mu.replicas)
	f.mu.Unlock()
	for _, r := range all {
		f.running.Go(func() { _ = r.m.Close() }) // Run tells
	}
	f.running.Wait()
}
