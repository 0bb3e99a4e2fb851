package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/manager"
)

// learner is what learns: a digits.Trainer, or digits.Rounds.
type learner interface {
	Run(ctx context.Context) error
	Finish(ctx context.Context, linger time.Duration) error
	Step() int64
	Accuracy() float64
	Hash() string
}

// roundOptions are the flags of training in rounds.
type roundOptions struct {
	by       string // one of digits.RoundWays; empty: no rounds
	every    int
	quantize string // one of quantizeWays; empty: float32
}

var formats = map[string]quant.Format{"int8": quant.Int8, "fp8": quant.E4M3}

// quantizeWays are the values of -rounds-quantize.
func quantizeWays() []string { return slices.Sorted(maps.Keys(formats)) }

// validate names what is wrong with flags of a run in rounds.
func (r roundOptions) validate(o options) error {
	_, known := formats[r.quantize]
	switch {
	case r.quantize != "" && !known:
		return fmt.Errorf("--rounds-quantize = %q, want nothing, or one of %s", r.quantize, strings.Join(quantizeWays(), ", "))
	case o.gpu.how != "" || o.keep.dir != "":
		return fmt.Errorf("--rounds = %q with --gpu or --checkpoint-dir, which are of training by gradients", r.by)
	}
	if err := r.config(o.digits).Validate(); err != nil {
		return fmt.Errorf("--rounds: %w", err)
	}
	return nil
}

func (r roundOptions) config(c digits.Config) digits.RoundsConfig {
	rounds := digits.RoundsConfig{Config: c, By: r.by, Every: r.every}
	if f, ok := formats[r.quantize]; ok {
		rounds.Quantize = &quant.Options{Format: f}
	}
	return rounds
}

// newLearner makes what o asks for, and registers its state with m.
func newLearner(o options, m *manager.Manager) (l learner, closeIt func() error, err error) {
	if o.rounds.by == "" {
		l, err = digits.NewTrainer(o.digits, m)
		return l, func() error { return nil }, err
	}
	r, err := digits.NewRounds(o.rounds.config(o.digits), m)
	if err != nil {
		return nil, nil, err
	}
	return r, r.Close, nil
}
