package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

const (
	trainerWorker    = "chaos-trainer"
	lighthouseWorker = "chaos-lighthouse"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: their
// processes wait for steps and timeouts rather than compute.
const testsAtOnce = 8

func TestMain(m *testing.M) {
	become() // does not return in a process that is to be another
	dying = withDeath
	spawn.Register(trainerWorker, trainer)
	spawn.Register(counterWorker, count)
	spawn.Register(lighthouseWorker, serve)
	if err := errors.Join(tcp.Register(), baby.Register(tcp.Name)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	baby.Init() // does not return in a worker, or in a backend's child
	paralleltest.AtOnce(testsAtOnce)
	if err := removeLeft(); err != nil { // it may still be in use for a moment: the next run tries again
		fmt.Fprintln(os.Stderr, "what an earlier run of these tests has left:", err)
	}
	status := m.Run()
	if err := removeBuilds(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// serve is the lighthouse's process.
func serve(ctx context.Context, w spawn.Worker) error {
	var a workerArgs
	if err := json.Unmarshal(w.Args, &a); err != nil {
		return err
	}
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.DataDir, cfg.Log = a.Listen, a.DataDir, a.log()
	cfg.Rules.MinReplicas = max(a.MinReplicas, 1)
	if a.StuckAfter > 0 {
		cfg.Rules.StuckAfter = a.StuckAfter
	}
	if a.JoinTimeout > 0 {
		cfg.Rules.JoinTimeout = a.JoinTimeout
	}
	var err error
	if cfg.Guard, err = a.guard(); err != nil {
		return err
	}
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	(&reporter{}).say(report{Kind: listening, Addr: s.Addr().String()})
	return s.Run(ctx)
}

// trainer is a replica's process: it trains until it has had all its steps, and
// then stays for those who are behind until it is told to end.
func trainer(ctx context.Context, w spawn.Worker) error {
	var a workerArgs
	if err := json.Unmarshal(w.Args, &a); err != nil {
		return err
	}
	out := &reporter{}
	var armed atomic.Bool
	ctx = withDeath(ctx, a, &armed)
	k, err := openKeeper(ctx, a, out)
	if err != nil {
		return err
	}
	guarded, err := a.guard()
	if err != nil {
		return err
	}
	backend, err := a.backend()
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		Guard:       guarded,
		Start:       k.start,
		ReplicaID:   fmt.Sprintf("replica-%d", w.Rank),
		Lighthouse:  []string{a.Lighthouse},
		MinReplicas: 1,
		StepTimeout: a.StepTimeout,
		HealTimeout: time.Minute,
		Backend:     backend,
		OnEvent:     func(e manager.Event) { tell(out, e) },
		Log:         a.log(),
	})
	if err != nil {
		return err
	}
	t, err := newTrainer(a, w.Rank, m, out, k.checkpoints, &armed)
	if err == nil {
		err = k.load(ctx)
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(gctx) })
	g.Go(func() error { return k.run(gctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		if err := t.Run(gctx); err != nil {
			return err
		}
		out.say(report{Kind: final, Step: t.Step(), Hash: t.Hash()})
		return t.Linger(gctx)
	})
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

func newTrainer(
	a workerArgs, index int, m *manager.Manager, out *reporter, c *durable.Checkpointer, armed *atomic.Bool,
) (*digits.Trainer, error) {
	ballast := tensor.New(tensor.Float32, a.BallastMiB<<18)
	save := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"ballast": ballast}}
	}
	if a.BallastMiB > 0 {
		if err := m.Register("ballast", save, nil); err != nil {
			return nil, err
		}
		if c != nil {
			if err := c.Register("ballast", save, nil); err != nil {
				return nil, err
			}
		}
	}
	var t *digits.Trainer
	var told int64 // lingering commits steps that change nothing
	cfg := digits.Config{
		Seed: 1, Steps: a.Steps, StepTime: a.StepTime, Checkpoints: c,
		Shard: digits.Shard{Index: index, Count: a.Replicas},
		OnStep: func(r digits.Report) {
			if r.Committed && r.Step > told {
				told = r.Step
				armed.Store(r.Step >= a.DieFrom)
				out.say(report{Kind: committed, Step: r.Step, Hash: t.Hash()})
			}
		},
	}
	t, err := digits.NewTrainer(cfg, m)
	return t, err
}
