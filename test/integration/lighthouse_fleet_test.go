package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// patience bounds every wait for something that must happen; only a hang
// reaches it.
const patience = 60 * time.Second

// stepTime is how long the forward and backward pass of the tests' trainers
// take.
const stepTime = 10 * time.Millisecond

// trainer is a replica of one rank that trains a vector until it is stopped.
type trainer struct {
	name   string
	m      *manager.Manager
	params []float32
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu        sync.Mutex
	err       error
	changed   chan struct{} // closed and replaced with every event
	commits   int
	discarded []string
	quorums   []int64 // ids, in the order in which they were formed
	sessions  int     // opened
}

// startTrainer runs a replica whose manager finds the lighthouse at addr.
func startTrainer(t *testing.T, name, addr string) *trainer {
	t.Helper()
	tr := &trainer{name: name, params: make([]float32, 1024), changed: make(chan struct{})}
	m, err := manager.New(manager.Config{
		ReplicaID: name, Lighthouse: []string{addr}, StepTimeout: 20 * time.Second, HealTimeout: 20 * time.Second,
		Backend: tcp.New(tcp.Options{BeatTimeout: patience}), OnEvent: tr.note, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.m = m
	state := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(tr.params)}}
	}
	if err := m.Register("model", state, nil); err != nil {
		t.Fatal(errors.Join(err, m.Close()))
	}
	ctx, stop := context.WithCancel(context.Background())
	tr.stop = stop
	tr.ended.Go(func() { _ = m.Run(ctx) }) // the loop has the error
	tr.ended.Go(func() {
		if err := tr.loop(ctx); ctx.Err() == nil && !errors.Is(err, manager.ErrClosed) {
			tr.fail(err)
		}
	})
	t.Cleanup(func() {
		_ = m.Close() // the test is over
		stop()
		tr.ended.Wait()
	})
	return tr
}

// loop is the training loop of the README, less the model.
func (tr *trainer) loop(ctx context.Context) error {
	grads := make([]float32, len(tr.params))
	for {
		if err := tr.m.StartQuorum(ctx); err != nil {
			return err
		}
		for i := range grads {
			grads[i] = float32(tr.m.Step()) + float32(i)
		}
		time.Sleep(stepTime)
		if err := tr.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg); err != nil {
			return err
		}
		committed, err := tr.m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		for i := range grads {
			if committed {
				tr.params[i] -= 0.01 * grads[i]
			}
		}
	}
}

func (tr *trainer) fail(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.err = err
	tr.tellLocked()
}

func (tr *trainer) tellLocked() {
	close(tr.changed)
	tr.changed = make(chan struct{})
}

func (tr *trainer) note(e manager.Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch e := e.(type) {
	case manager.StepCommitted:
		tr.commits++
	case manager.StepDiscarded:
		tr.discarded = append(tr.discarded, e.String())
	case manager.QuorumFormed:
		tr.quorums = append(tr.quorums, e.QuorumID)
	case manager.LighthouseFound:
		tr.sessions++
	}
	tr.tellLocked()
}

// await waits until ok says so of the trainer, under its lock.
func (tr *trainer) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	over := time.After(patience)
	for {
		tr.mu.Lock()
		done, err, changed := ok(), tr.err, tr.changed
		tr.mu.Unlock()
		switch {
		case err != nil:
			t.Fatalf("%s stopped training: %v", tr.name, err)
		case done:
			return
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("%s: not within %v: %s", tr.name, patience, what)
		}
	}
}

// reaches waits until the trainer has committed that many steps.
func (tr *trainer) reaches(t *testing.T, steps int) {
	t.Helper()
	tr.await(t, fmt.Sprintf("%d steps", steps), func() bool { return tr.commits >= steps })
}

func (tr *trainer) steps() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.commits
}

// fleet is a lighthouse and three trainers in one quorum.
type fleet struct {
	light    *lighthousetest.Server
	trainers []*trainer
	quorum   int64
}

// startFleet starts a lighthouse, and three trainers at those addresses ("" is
// its own), and waits until they have trained for a while.
func startFleet(t *testing.T, change func(*lighthouse.Config), at func(lighthouse string) [3]string) *fleet {
	t.Helper()
	f := &fleet{light: lighthousetest.Start(t, func(c *lighthouse.Config) {
		c.Rules.MinReplicas = 3
		if change != nil {
			change(c)
		}
	})}
	for i, addr := range at(f.light.Addr) {
		f.trainers = append(f.trainers, startTrainer(t, string(rune('a'+i)), addr))
	}
	for _, tr := range f.trainers {
		tr.reaches(t, 5)
	}
	f.quorum = f.trainers[0].quorums[0]
	return f
}

func direct(addr string) [3]string { return [3]string{addr, addr, addr} }

// train lets everybody train for that long, and checks that nothing disturbed
// it: all stand in the first quorum, and no step was discarded. (That no step waits
// for the lighthouse is shown in virtual time, test/worlds.)
func (f *fleet) train(t *testing.T, long time.Duration) {
	t.Helper()
	from := make([]int, len(f.trainers))
	for i, tr := range f.trainers {
		from[i] = tr.steps()
	}
	time.Sleep(long)
	for i, tr := range f.trainers {
		tr.reaches(t, from[i]+10)
		tr.mu.Lock()
		if len(tr.discarded) > 0 {
			t.Errorf("%s discarded steps:\n%s", tr.name, strings.Join(tr.discarded, "\n"))
		}
		if !slices.Equal(tr.quorums, []int64{f.quorum}) {
			t.Errorf("%s was in quorums %v, want %d alone", tr.name, tr.quorums, f.quorum)
		}
		tr.mu.Unlock()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// job is what the lighthouse says of the fleet.
func (f *fleet) job(t *testing.T) lighthouse.JobStatus {
	t.Helper()
	st, err := f.light.Lighthouse.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(st.Jobs))
	}
	return st.Jobs[0]
}

// replica is what the lighthouse says of one of them, by the name that it was
// started under.
func (f *fleet) replica(t *testing.T, name string) lighthouse.ReplicaStatus {
	t.Helper()
	for _, r := range f.job(t).Replicas {
		if strings.HasPrefix(r.ReplicaID, name+":") {
			return r
		}
	}
	t.Fatalf("the lighthouse does not know %s", name)
	return lighthouse.ReplicaStatus{}
}
