package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/examples/digits/gpu"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/train/spawn"
)

// What the trainers of a job do.
const (
	replicas = 3
	stepTime = 20 * time.Millisecond
	dieAt    = 60
	linger   = 3 * time.Second
)

func (j job) steps() int64 {
	if j.Full {
		return 600
	}
	return 150
}

// train is a replica of digits that averages its gradients on the GPU.
func (r *rank) train(ctx context.Context) error {
	g, err := gpu.Open(gpu.Options{Index: r.dev.Index(), Baby: r.Baby, NCCL: r.Libraries.NCCL, CUDA: r.Libraries.CUDA})
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		Backend: g.Backend, ReplicaID: fmt.Sprintf("replica-%d", r.Replica), GroupWorldSize: 1,
		Lighthouse: []string{r.Lighthouse}, Job: r.Cluster, Listen: "127.0.0.1:0",
	})
	if err != nil {
		return errors.Join(err, g.Backend.Close(), g.Close())
	}
	watch := commits{rank: r}
	t, err := digits.NewTrainer(digits.Config{
		Seed: 1, Steps: r.steps(), Shard: digits.Shard{Index: r.Replica, Count: replicas},
		StepTime: stepTime, Alloc: g.Alloc, OnStep: watch.step,
	}, m)
	if err != nil {
		return errors.Join(err, m.Close(), g.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.Run(ctx) })
	group.Go(func() error {
		defer m.Close() // its error is Run's
		if err := t.Run(ctx); err != nil {
			return err
		}
		r.say(record{What: "gap", Seconds: watch.longest.Seconds(), Count: watch.discarded})
		r.say(record{What: "hash", Value: t.Hash(), Seconds: t.Accuracy()})
		return t.Finish(ctx, linger)
	})
	return errors.Join(group.Wait(), g.Close())
}

// commits watches the steps of a trainer.
type commits struct {
	rank      *rank
	last      time.Time
	longest   time.Duration // between two commits, once a few are done
	discarded int
}

func (c *commits) step(s digits.Report) {
	if !s.Committed {
		c.discarded++
		return
	}
	if c.rank.DieAt > 0 && s.Step >= c.rank.DieAt {
		<-time.After(2 * stepTime)                          // the others are in NCCL by then, and wait for this one
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // does not return
	}
	now := time.Now()
	if s.Step >= dieAt/2 && !c.last.IsZero() {
		c.longest = max(c.longest, now.Sub(c.last))
	}
	c.last = now
}

// A job of three replicas trains on the GPU; one kills itself, the others go on without
// it, it comes back and heals, and all end with the same bytes.
func TestElastic(t *testing.T) {
	for _, way := range []struct {
		name string
		baby bool
	}{{"in this process", false}, {"in a Baby", true}} {
		t.Run(way.name, func(t *testing.T) {
			if testing.Short() && !way.baby {
				t.Skip("a job in a Baby is enough for a short run")
			}
			title := "training with a replica killed, NCCL " + way.name
			results.follow(t, title)
			house := lighthousetest.Start(t, nil)
			j := job{
				Scenario: "train", Cluster: fmt.Sprintf("train-%d", time.Now().UnixNano()), Libraries: open(t),
				Full: *real, Limit: scenarioLimit(), Lighthouse: house.Addr, Baby: way.baby,
			}
			procs, outs := make([]*spawn.Process, replicas), make([]bytes.Buffer, replicas)
			launch := func(i int, dies int64) {
				j := j
				j.Replica, j.DieAt = i, dies
				args, err := json.Marshal(j)
				if err != nil {
					t.Fatal(err)
				}
				procs[i], err = spawn.Start(spawn.Worker{Name: workerName, WorldSize: 1}, spawn.Options{
					Args: args, Env: environment(i), Stdout: &outs[i], Stderr: os.Stderr,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(procs[i].Kill)
			}
			const victim = replicas - 1
			for i := range replicas {
				dies := int64(0)
				if i == victim {
					dies = dieAt
				}
				launch(i, dies)
			}
			ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit())
			defer cancel()
			if err := procs[victim].Wait(ctx); !killed(err) {
				t.Fatalf("the victim ended with %v, want SIGKILL", err)
			}
			launch(victim, 0)
			gap, discarded, hashes := 0.0, 0, make(map[string]float64)
			for i, p := range procs {
				if err := p.Wait(ctx); err != nil {
					t.Fatalf("replica %d: %v\n%s", i, err, outs[i].Bytes())
				}
				for _, rec := range records(t, &outs[i]) {
					switch rec.What {
					case "gap":
						if i != victim {
							gap, discarded = max(gap, rec.Seconds), max(discarded, rec.Count)
						}
					case "hash":
						hashes[rec.Value] = rec.Seconds
					}
				}
			}
			if len(hashes) != 1 {
				t.Fatalf("the replicas end with %v, want the same bytes", hashes)
			}
			for _, accuracy := range hashes {
				text := fmt.Sprintf("same bytes, accuracy %.4f; longest time between two commits %.0f ms, %d steps discarded", accuracy, 1000*gap, discarded)
				if accuracy < 0.9 {
					t.Errorf("%s: want an accuracy of 0.9 or more", text)
				}
				t.Log(text)
				results.passed(title, text)
			}
		})
	}
}

func killed(err error) bool {
	e, ok := errors.AsType[*spawn.ExitError](err)
	return ok && e.Signal == syscall.SIGKILL
}
