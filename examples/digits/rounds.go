package digits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// The values of RoundsConfig.By.
const (
	ByLocalSGD  = "localsgd"  // parameters are averaged
	ByDiLoCo    = "diloco"    // an outer optimizer follows their average
	ByStreaming = "streaming" // the same, half of the model at a time, beside the next step
)

// RoundWays are the values of RoundsConfig.By.
func RoundWays() []string { return []string{ByLocalSGD, ByDiLoCo, ByStreaming} }

// RoundsConfig says what a replica learns that synchronises in rounds. All but OnStep and
// Shard.Index is the same on all replicas.
type RoundsConfig struct {
	Config

	// By is how: one of RoundWays.
	By string
	// Every is in how many steps a parameter is synchronised once; 0 means RoundSteps.
	Every int
	// Quantize sends eight bits in the place of floats of 32; nil: those.
	Quantize *quant.Options
}

// RoundSteps is how many steps lie between two synchronisations of a parameter, unless
// RoundsConfig says otherwise.
const RoundSteps = 10

// fragments of ByStreaming: the first layer, and the second.
const fragments = 2

// outer is the optimizer of the global parameters. Few rounds bear less momentum than the
// 0.9 of DiLoCo's paper, whose runs have hundreds.
var outer = localsgd.SGD{Rate: 0.5, Momentum: 0.5, Nesterov: true}

// Validate returns all problems, joined.
func (c RoundsConfig) Validate() error {
	errs := []error{c.Config.Validate()}
	every := cmp.Or(c.Every, RoundSteps)
	switch {
	case !slices.Contains(RoundWays(), c.By):
		errs = append(errs, fmt.Errorf("By = %q, want one of %s", c.By, strings.Join(RoundWays(), ", ")))
	case every < fragments || every%fragments != 0:
		errs = append(errs, fmt.Errorf("Every = %d, want a multiple of %d, the fragments", c.Every, fragments))
	case c.Steps%int64(every) != 0:
		errs = append(errs, fmt.Errorf("Steps = %d, want a multiple of Every, %d", c.Steps, every))
	}
	if c.Hook != "" && c.Hook != HookNone || c.Alloc != nil || c.Checkpoints != nil || c.OwnGradientsUntil > 0 {
		errs = append(errs, errors.New("want no Hook, Alloc, Checkpoints or OwnGradientsUntil, which are of training by gradients"))
	}
	return errors.Join(errs...)
}

// Rounds is one replica of the model in training that exchanges parameters once in many
// steps, where a Trainer exchanges gradients in each. It is owned by one goroutine.
type Rounds struct {
	cfg        RoundsConfig
	manager    *manager.Manager
	model      *Model
	sgd        *SGD
	averager   *localsgd.Averager
	length     int64 // inner steps of a round
	rows, test *Dataset
}

// NewRounds builds the model and registers its state with m, which must not run yet.
func NewRounds(cfg RoundsConfig, m *manager.Manager) (*Rounds, error) {
	cfg.Batch, cfg.Every = cmp.Or(cfg.Batch, BatchRows), cmp.Or(cfg.Every, RoundSteps)
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("digits: %w", err)
	}
	rows, test, err := Load(cfg.Seed)
	if err != nil {
		return nil, err
	}
	model := NewModel(cfg.Seed)
	r := &Rounds{
		cfg: cfg, manager: m, model: model, sgd: NewSGD(model.Params(), cfg.Steps), length: int64(cfg.Every), rows: rows, test: test,
	}
	r.averager, err = r.average()
	return r, err
}

// average makes what synchronises the replicas.
func (r *Rounds) average() (*localsgd.Averager, error) {
	var params []localsgd.Param
	for _, p := range r.model.Params() {
		params = append(params, localsgd.Param{Name: p.Name, Value: tensor.Of(p.Value)})
	}
	rounds, reduction := r.cfg.Steps/r.length, localsgd.Reduction{Quantize: r.cfg.Quantize}
	switch r.cfg.By {
	case ByLocalSGD:
		return localsgd.NewLocalSGD(r.manager, params, localsgd.Config{Every: r.cfg.Every, Rounds: rounds, Reduction: reduction})
	case ByDiLoCo:
		return localsgd.NewDiLoCo(r.manager, [][]localsgd.Param{params}, localsgd.DiLoCoConfig{
			Every: r.cfg.Every, Rounds: rounds, Outer: outer, Reduction: reduction,
		})
	}
	r.length /= fragments
	half := len(params) / fragments
	return localsgd.NewDiLoCo(r.manager, [][]localsgd.Param{params[:half], params[half:]}, localsgd.DiLoCoConfig{
		Every: r.cfg.Every, Rounds: rounds * fragments, Outer: outer, Delay: 1, Reduction: reduction,
	})
}

// Run trains until all rounds are through. The model has the global parameters then: of
// ByStreaming, the steps since the last exchange of a fragment are dropped.
func (r *Rounds) Run(ctx context.Context) error {
	for !r.Done() {
		if _, err := r.turn(ctx); err != nil {
			return err
		}
	}
	global := r.averager.State().Tensors
	for _, p := range r.model.Params() {
		copy(p.Value, tensor.Slice[float32](global["global."+p.Name]))
	}
	return nil
}

// turn is one inner step; committed says that it has ended a round well.
func (r *Rounds) turn(ctx context.Context) (committed bool, err error) {
	if err := r.averager.Begin(ctx); err != nil {
		return false, err
	}
	if err := backoff.Sleep(ctx, r.cfg.StepTime); err != nil {
		return false, err
	}
	// The count of steps goes by the rounds, which a heal brings along.
	r.sgd.Taken = min(max(r.sgd.Taken, r.averager.Rounds()*r.length), r.cfg.Steps-1)
	r.sgd.ZeroGrad()
	loss := r.model.Learn(r.rows.Batch(r.cfg.Seed, r.sgd.Taken, r.cfg.Shard, r.cfg.Batch), nil)
	r.sgd.Step()
	committed, err = r.averager.Step(ctx)
	if err == nil && committed && r.cfg.OnStep != nil {
		r.cfg.OnStep(Report{Step: r.Step(), Loss: loss, Committed: true})
	}
	return committed, err
}

// Finish is Trainer.Finish; an idle round takes as long as a step.
func (r *Rounds) Finish(ctx context.Context, linger time.Duration) error {
	return r.manager.Finish(ctx, linger, func(ctx context.Context) error {
		if err := backoff.Sleep(ctx, r.cfg.StepTime); err != nil {
			return err
		}
		return r.averager.Idle(ctx)
	})
}

// Done says that all rounds are through.
func (r *Rounds) Done() bool { return r.averager.Done() }

// Step is the number of steps whose rounds are through.
func (r *Rounds) Step() int64 { return min(r.averager.Rounds()*r.length, r.cfg.Steps) }

// Hash is the SHA-256 of the parameters, which after Run are the global ones.
func (r *Rounds) Hash() string { return r.model.Hash() }

// Accuracy is the part of the test rows that the model gets right.
func (r *Rounds) Accuracy() float64 { return r.model.Accuracy(r.test) }

// Close ends what runs beside training.
func (r *Rounds) Close() error { return r.averager.Close() }
