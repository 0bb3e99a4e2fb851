package deploy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// trainer is a replica of one rank that trains a vector until it is stopped.
type trainer struct {
	m     *manager.Manager
	steps atomic.Int64
	over  atomic.Bool // it is being stopped
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// cluster is three lighthouse servers with a token, and what trains by them.
type cluster struct {
	*lighthousetest.Cluster

	token guard.Secret
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{token: guard.RandomSecret()}
	c.Cluster = lighthousetest.StartCluster(t, 3, lighthousetest.Options{Change: func(_ int, cfg *lighthouse.Config) {
		cfg.Guard = guard.Options{Token: c.token}
		cfg.Rules.MinReplicas = 2
	}})
	return c
}

// train starts a replica.
func (c *cluster) train(t *testing.T, name string) *trainer {
	t.Helper()
	params := make([]float32, 64<<10)
	m, err := manager.New(manager.Config{
		ReplicaID: name, Lighthouse: c.Addresses(), Guard: manager.Guard{Token: c.token},
		StepTimeout: testkit.Patience, HealTimeout: testkit.Patience,
		Backend: tcp.New(tcp.Options{BeatTimeout: testkit.Patience}), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
	}, nil)
	if err != nil {
		t.Fatal(errors.Join(err, m.Close()))
	}
	ctx, stop := context.WithCancel(context.Background())
	tr := &trainer{m: m, stop: stop}
	tr.ended.Go(func() { _ = m.Run(ctx) }) // the loop has the error
	tr.ended.Go(func() {
		if err := tr.loop(ctx, params); !tr.over.Load() {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(func() {
		tr.over.Store(true)
		_ = m.Close() // the test is over
		tr.kill()
	})
	return tr
}

// kill ends a replica without a word to the lighthouse.
func (tr *trainer) kill() {
	tr.over.Store(true)
	tr.stop()
	tr.ended.Wait()
}

func (tr *trainer) loop(ctx context.Context, params []float32) error {
	grads := make([]float32, len(params))
	for {
		if err := tr.m.StartQuorum(ctx); err != nil {
			return err
		}
		for i := range grads {
			grads[i] = float32(i % 7)
		}
		if err := tr.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg); err != nil {
			return err
		}
		committed, err := tr.m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		if committed {
			for i := range grads {
				params[i] -= 0.01 * grads[i]
			}
			tr.steps.Add(1)
		}
		select { // a step is no race for the processor
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// goesOn waits until replicas have committed some more steps.
func goesOn(t *testing.T, all ...*trainer) {
	t.Helper()
	for _, tr := range all {
		until := tr.steps.Load() + 10
		testkit.Eventually(t, "ten steps", func() bool { return tr.steps.Load() >= until })
	}
}
