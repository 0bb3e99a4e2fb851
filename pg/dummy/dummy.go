// Package dummy is a backend for a world of one rank.
package dummy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Backend is a pg.Backend for a world of one rank: every collective is a copy of
// what this rank gives. It stands in where code wants a group and there is
// nobody to talk to, and counts its configurations for tests. Safe for concurrent use; an
// op runs on the goroutine that submits it.
type Backend struct {
	mu struct {
		sync.Mutex

		config     pg.Config
		configures int
		used       pg.History
		seq        uint64
		round      int64
		err        error
		closed     bool
	}
}

// New makes an unconfigured Backend.
func New() *Backend {
	d := &Backend{}
	d.mu.err = pg.ErrUnconfigured
	return d
}

// Name is "dummy".
func (d *Backend) Name() string { return "dummy" }

// Configure takes a config of world size 1. It never waits.
func (d *Backend) Configure(_ context.Context, c pg.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.mu.closed:
		return pg.ErrClosed
	case c.WorldSize() != 1 || c.Rank != 0:
		return fmt.Errorf("pg: dummy configured as rank %d of %d, want 0 of 1", c.Rank, c.WorldSize())
	}
	if err := d.mu.used.Use(&pg.Config{Cluster: c.Cluster, QuorumID: c.QuorumID}); err != nil { // it uses no store
		return err
	}
	d.mu.config, d.mu.round, d.mu.err = c, c.Round, nil
	d.mu.configures++
	d.mu.seq = 0
	return nil
}

// Configures is how often Configure has succeeded.
func (d *Backend) Configures() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.configures
}

// Config is that of the last Configure that succeeded.
func (d *Backend) Config() (pg.Config, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.config, d.mu.configures > 0
}

// SetRound sets the round of the ops to come.
func (d *Backend) SetRound(round int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.round = round
}

// Submit runs op at once.
func (d *Backend) Submit(op *pg.Op) *pg.Work {
	err := d.accept(op)
	if err == nil && op.Kind == pg.KindBatch {
		return pg.SubmitBatch(d, op)
	}
	if err == nil {
		err = runAlone(op)
	}
	return pg.Finished(op, err)
}

// Abort breaks the group if e is its epoch.
func (d *Backend) Abort(e pg.Epoch, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.err == nil && d.mu.config.Epoch() == e {
		d.mu.err = cause
	}
}

// Err is the first cause since Configure.
func (d *Backend) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.err
}

// Close breaks the group for good.
func (d *Backend) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.closed, d.mu.err = true, pg.ErrClosed
	return nil
}

func (d *Backend) accept(op *pg.Op) error {
	if err := op.Validate(0, 1); err != nil {
		return err
	}
	if err := op.RequireCPU(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.mu.closed:
		return pg.ErrClosed
	case d.mu.configures == 0:
		return pg.ErrUnconfigured
	case d.mu.err != nil:
		return errors.Join(pg.ErrAborted, d.mu.err)
	}
	d.mu.seq++
	op.Seq, op.Epoch, op.Round = d.mu.seq, d.mu.config.Epoch(), d.mu.round
	return nil
}

// runAlone does what a valid op does in a world of one rank.
func runAlone(op *pg.Op) error {
	switch {
	case op.Kind == pg.KindBallot:
		op.OwnBallot(0, 1)
	case op.Kind.Reduces():
		for i, out := range op.Out {
			in := [1][]byte{op.In[i].Bytes()}
			if err := tensor.Reduce(out.Bytes(), in[:], out.DType(), op.Reduce, op.EffectiveDivisor(1), op.Factor); err != nil {
				return err // Validate has refused what the kernels do
			}
		}
	case len(op.In) > 0:
		for i, out := range op.Out {
			copy(out.Bytes(), op.In[i].Bytes())
		}
	}
	return nil
}
