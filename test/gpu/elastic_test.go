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
	"github.com/skerry-ft/skerry/internal/testkit"
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
		return 300
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
			if !*real { // the steps are paced; on hardware, each job is to have it to itself
				testkit.Long(t)
				t.Parallel()
			}
			title := "training with a replica killed, NCCL " + way.name
			results.follow(t, title)
			text := startTrainers(t, way.baby).judge(t)
			t.Log(text)
			results.passed(title, text)
		})
	}
}

// victim is the replica that kills itself.
const victim = replicas - 1

// trainers are the processes of a job.
type trainers struct {
	job   job
	procs [replicas]*spawn.Process
	outs  [replicas]bytes.Buffer
}

// startTrainers starts a lighthouse and all replicas, and the victim again once it is dead.
func startTrainers(t *testing.T, inBaby bool) *trainers {
	t.Helper()
	house := lighthousetest.Start(t, nil)
	all := &trainers{job: job{
		Scenario: "train", Cluster: fmt.Sprintf("train-%d", time.Now().UnixNano()), Libraries: open(t),
		Full: *real, Limit: scenarioLimit(), Lighthouse: house.Addr, Baby: inBaby,
	}}
	for i := range replicas {
		dies := int64(0)
		if i == victim {
			dies = dieAt
		}
		all.start(t, i, dies)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit())
	defer cancel()
	if err := all.procs[victim].Wait(ctx); !killed(err) {
		t.Fatalf("the victim ended with %v, want SIGKILL", err)
	}
	all.start(t, victim, 0)
	return all
}

func (a *trainers) start(t *testing.T, i int, dies int64) {
	t.Helper()
	j := a.job
	j.Replica, j.DieAt = i, dies
	args, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	a.procs[i], err = spawn.Start(spawn.Worker{Name: workerName, WorldSize: 1}, spawn.Options{
		Args: args, Env: environment(i), Stdout: &a.outs[i], Stderr: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.procs[i].Kill)
}

// judge waits for all, and says how it was.
func (a *trainers) judge(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit())
	defer cancel()
	gap, discarded, accuracies := 0.0, 0, make(map[string]float64)
	for i, p := range a.procs {
		if err := p.Wait(ctx); err != nil {
			t.Fatalf("replica %d: %v\n%s", i, err, a.outs[i].Bytes())
		}
		for _, rec := range records(t, &a.outs[i]) {
			switch {
			case rec.What == "hash":
				accuracies[rec.Value] = rec.Seconds
			case rec.What == "gap" && i != victim:
				gap, discarded = max(gap, rec.Seconds), max(discarded, rec.Count)
			}
		}
	}
	text := fmt.Sprintf("longest time between two commits %.0f ms, steps discarded: %d", 1000*gap, discarded)
	if len(accuracies) != 1 {
		t.Fatalf("%s; the replicas end with %v, want the same bytes", text, accuracies)
	}
	for _, accuracy := range accuracies {
		text += fmt.Sprintf("; same bytes, accuracy %.4f", accuracy)
		if accuracy < 0.9 {
			t.Errorf("%s: want an accuracy of 0.9 or more", text)
		}
	}
	return text
}

func killed(err error) bool {
	e, ok := errors.AsType[*spawn.ExitError](err)
	return ok && e.Signal == syscall.SIGKILL
}
