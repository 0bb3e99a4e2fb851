package chaos

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/manager"
)

// keeper is a trainer's checkpoints; zero: it keeps none.
type keeper struct {
	checkpoints *durable.Checkpointer
	found       *durable.Found
	start       manager.Start
}

// openKeeper finds what a trainer goes on from.
func openKeeper(ctx context.Context, a workerArgs, out *reporter) (keeper, error) {
	var k keeper
	if a.Checkpoints == "" {
		return k, nil
	}
	dir, err := localdir.New(localdir.Config{Path: a.Checkpoints}) // the process closes it
	if err != nil {
		return k, err
	}
	k.checkpoints, err = durable.New(durable.Config{Store: dir, Every: a.CheckpointEvery, MaxFileBytes: 64 << 10, OnEvent: func(e durable.Event) {
		switch e := e.(type) {
		case durable.Saved:
			out.say(report{Kind: kept, Step: e.Position.Step})
		case durable.SaveFailed, durable.PruneFailed:
			if ctx.Err() == nil { // else the process was told to end
				out.say(report{Kind: notKept, Text: e.String()})
			}
		}
	}})
	if err == nil {
		k.found, err = k.checkpoints.Find(ctx)
	}
	if errors.Is(err, durable.ErrNone) {
		return k, nil
	}
	if err == nil {
		k.start = manager.Start{Position: k.found.Position, Batches: k.found.Batches}
		out.say(report{Kind: restored, Step: k.found.Position.Step})
	}
	return k, err
}

func (k keeper) load(ctx context.Context) error {
	if k.found == nil {
		return nil
	}
	return k.checkpoints.Load(ctx, k.found)
}

func (k keeper) run(ctx context.Context) error {
	if k.checkpoints == nil {
		return nil
	}
	return k.checkpoints.Run(ctx)
}

// newest is the step of the newest checkpoint that is whole.
func (c *cluster) newest() int64 {
	c.t.Helper()
	dir, err := localdir.New(localdir.Config{Path: c.checkpoints, ReadOnly: true})
	if err != nil {
		c.t.Fatal(err)
	}
	defer dir.Close() // it was read
	cp, err := durable.New(durable.Config{Store: dir})
	if err != nil {
		c.t.Fatal(err)
	}
	f, err := cp.Find(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("found %v", f)
	return f.Position.Step
}

// forget drops what was reported of the steps after one: they are done again.
func (c *cluster) forget(step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []report
	for _, r := range c.mu.reports {
		if r.Kind != committed || r.Step <= step {
			left = append(left, r)
		}
	}
	c.mu.reports = left
}

// All replicas are killed at one moment, three times, and go on from the newest checkpoint:
// each step after it is done once more, and no other.
func TestKillAllAndGoOn(t *testing.T) {
	t.Parallel()
	const every = 5
	c := start(t, options{steps: 150, ballastMiB: 8, checkpointEvery: every})
	for range 3 {
		c.awaitMore(25)
		reached := c.step()
		c.kill(0, 1, 2, 3)
		newest := c.newest()
		var written int64
		c.each(func(r report) {
			if r.Kind == kept {
				written = max(written, r.Step)
			}
		})
		if newest < written || newest > c.step() || newest%every != 0 {
			t.Errorf("the newest checkpoint is of step %d, want %d or later, up to %d", newest, written, reached)
		}
		c.forget(newest)
		restores := c.count(restored)
		for i := range c.trainers {
			c.startTrainer(i)
		}
		c.await("all are restored", func() bool { return c.count(restored) == restores+len(c.trainers) })
		c.each(func(r report) {
			if r.Kind == restored && r.incarnation == c.started[r.index] && r.Step < newest {
				t.Errorf("replica %d goes on from step %d, want %d", r.index, r.Step, newest)
			}
		})
	}
	c.finish() // of the steps since the newest one, all were committed, one after the other
	c.each(func(r report) {
		if r.Kind == notKept {
			t.Errorf("replica %d: %s", r.index, r.Text)
		}
	})
	if left, err := filepath.Glob(filepath.Join(c.checkpoints, "0*")); err != nil || len(left) > 5 {
		t.Errorf("left %d checkpoints, %v, want 3 and those under way", len(left), err)
	}
}
