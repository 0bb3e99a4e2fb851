package digits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/optim"
)

// BatchRows is the size of one replica's batch, unless Config says otherwise.
const BatchRows = 32

// Config says what a replica learns. Seed, Steps and the number of shards must
// be the same on all replicas.
type Config struct {
	Seed  uint64
	Steps int64
	Shard Shard
	Batch int // rows; 0 means BatchRows

	// StepTime is how long a step takes at least, as if the model were larger:
	// so long the forward pass is held up. 0: not at all.
	StepTime time.Duration

	// OnStep is told how each attempt of a step ended, on the trainer's
	// goroutine; nil: reports are dropped.
	OnStep func(Report)

	// Checkpoints writes checkpoints that outlive the run; the caller runs it. nil: none
	// are written.
	Checkpoints *durable.Checkpointer

	// Hook is how gradients are averaged: one of Hooks; "": HookNone. The same on all
	// replicas.
	Hook string

	// Alloc makes the memory in which gradients are averaged, if that is a device's, as
	// package gpu has it: they are copied there as they become ready, and back once they
	// are averaged. nil: they are averaged where they are. Without a Hook.
	Alloc func(dtype tensor.DType, shape ...int) (tensor.Tensor, error)

	// OwnGradientsUntil is the last step in which this replica applies its own
	// gradients instead of the average; 0: none. It exists to show that parity checks
	// see it.
	OwnGradientsUntil int64
}

// Validate returns all problems, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Steps < 1 {
		errs = append(errs, fmt.Errorf("Steps = %d, want at least 1", c.Steps))
	}
	if c.Shard.Count < 1 || c.Shard.Index < 0 || c.Shard.Index >= c.Shard.Count {
		errs = append(errs, fmt.Errorf("Shard = %d of %d, want an index below the count", c.Shard.Index, c.Shard.Count))
	}
	if c.Batch < 0 {
		errs = append(errs, fmt.Errorf("Batch = %d, want 0 or more", c.Batch))
	}
	if c.StepTime < 0 {
		errs = append(errs, fmt.Errorf("StepTime = %v, want 0 or more", c.StepTime))
	}
	if c.Hook != "" && !slices.Contains(Hooks(), c.Hook) {
		errs = append(errs, fmt.Errorf("Hook = %q, want one of %s", c.Hook, strings.Join(Hooks(), ", ")))
	}
	if c.Alloc != nil && c.Hook != "" && c.Hook != HookNone {
		errs = append(errs, fmt.Errorf("Hook = %q with Alloc, want %s: hooks want gradients in host memory", c.Hook, HookNone))
	}
	return errors.Join(errs...)
}

// Report is how one attempt of a step ended.
type Report struct {
	Step      int64 // number of updates the model has had
	Loss      float64
	Committed bool
}

// Trainer is one replica of the model in training. It is owned by one
// goroutine.
type Trainer struct {
	cfg       Config
	manager   *manager.Manager
	model     *Model
	sgd       *SGD
	optimizer *optim.Wrapper
	reducer   *ddp.Reducer
	copied    error // what went wrong in a copy to the device in this step
	rows      *Dataset
	test      *Dataset
}

// NewTrainer builds the model and registers its state with m, which must not
// run yet, and with Config.Checkpoints, which can Load then. The caller runs and closes m.
func NewTrainer(cfg Config, m *manager.Manager) (*Trainer, error) {
	cfg.Batch = cmp.Or(cfg.Batch, BatchRows)
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("digits: %w", err)
	}
	rows, test, err := Load(cfg.Seed)
	if err != nil {
		return nil, err
	}
	model := NewModel(cfg.Seed)
	t := &Trainer{
		cfg: cfg, manager: m, model: model, sgd: NewSGD(model.Params(), cfg.Steps),
		rows: rows, test: test,
	}
	t.optimizer = optim.Wrap(m, t.sgd)
	if err := errors.Join(t.average(), t.register("digits", t.state, t.loaded)); err != nil {
		return nil, err
	}
	return t, nil
}

// Run trains until the model has had all its steps. Replicas may die and come
// back meanwhile: a step that fails is thrown away and tried again with
// whoever is left. It returns an error only when training cannot go on.
func (t *Trainer) Run(ctx context.Context) error {
	t.sgd.points = failpoint.From(ctx)
	for t.sgd.Taken < t.cfg.Steps {
		if err := t.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step tries one step. This is all that a training loop has to do.
func (t *Trainer) step(ctx context.Context) error {
	// Begin: there is a quorum, or one is being formed beside what follows.
	begin := time.Now()
	if err := t.optimizer.ZeroGrad(ctx); err != nil {
		return err
	}
	_ = backoff.Sleep(ctx, t.cfg.StepTime-time.Since(begin)) // what follows tells that ctx has ended
	// Forward and backward; each gradient is averaged as soon as it is there.
	loss := t.model.Learn(t.batch(), t.ready)
	if err := t.reduce(ctx); err != nil {
		return err
	}
	// End: the averages are applied if all replicas agree, else nothing is.
	committed, err := t.optimizer.Step(ctx)
	if err != nil {
		return err
	}
	if committed {
		t.reducer.Commit()
	}
	t.report(loss, committed)
	// Between two steps nothing reads or changes the state: now it can be copied.
	if t.cfg.Checkpoints != nil {
		return t.cfg.Checkpoints.AfterStep(ctx, t.manager)
	}
	return nil
}

// Finish ends the run in good order: it stays for linger, so that a replica that is
// behind can still come and heal, and returns once this one has left. The optimizer has
// had its steps, and changes nothing. Call it after Run.
func (t *Trainer) Finish(ctx context.Context, linger time.Duration) error {
	return t.manager.Finish(ctx, linger, t.step)
}

// Linger is Finish without an end of its own: it steps until ctx ends.
func (t *Trainer) Linger(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := t.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// batch draws this step's rows. They follow the optimizer's count of steps,
// which a heal brings along.
func (t *Trainer) batch() *Dataset {
	return t.rows.Batch(t.cfg.Seed, t.sgd.Taken, t.cfg.Shard, t.cfg.Batch)
}

// reduce waits for the average gradients.
func (t *Trainer) reduce(ctx context.Context) error {
	if t.sgd.Taken >= t.cfg.OwnGradientsUntil {
		return t.averages(ctx)
	}
	own := make([][]float32, 0, len(t.model.Params()))
	for _, p := range t.model.Params() {
		own = append(own, append([]float32(nil), p.Grad...))
	}
	if err := t.averages(ctx); err != nil {
		return err
	}
	if !t.manager.IsParticipating() {
		return nil // it is being healed, and its count of steps is of before, or it is a spare
	}
	for i, p := range t.model.Params() {
		copy(p.Grad, own[i])
	}
	return nil
}

func (t *Trainer) report(loss float64, committed bool) {
	if t.cfg.OnStep != nil {
		t.cfg.OnStep(Report{Step: t.sgd.Taken, Loss: loss, Committed: committed})
	}
}

// metaTaken is the one number of the state that is not a tensor.
const metaTaken = "taken"

// state is what a replica needs to go on, as views of the live memory: a donor
// sends from it, and a heal writes into it.
func (t *Trainer) state() checkpoint.State {
	s := checkpoint.State{
		Tensors: make(map[string]tensor.Tensor),
		Meta:    map[string]string{metaTaken: strconv.FormatInt(t.sgd.Taken, 10)},
	}
	for i, p := range t.model.Params() {
		s.Tensors[p.Name] = tensor.Of(p.Value)
		s.Tensors["velocity."+p.Name] = tensor.Of(t.sgd.velocity[i])
	}
	return s
}

// loaded is told that a heal has written the tensors.
func (t *Trainer) loaded(s checkpoint.State) error {
	taken, err := strconv.ParseInt(s.Meta[metaTaken], 10, 64)
	if err != nil || taken < 0 {
		return fmt.Errorf("%s = %q, want a number of steps", metaTaken, s.Meta[metaTaken])
	}
	t.sgd.Taken = taken
	return nil
}

// Step is the number of updates that the model has had.
func (t *Trainer) Step() int64 { return t.sgd.Taken }

// Hash is the SHA-256 of the parameters.
func (t *Trainer) Hash() string { return t.model.Hash() }

// Accuracy is the part of the test rows that the model gets right.
func (t *Trainer) Accuracy() float64 { return t.model.Accuracy(t.test) }
