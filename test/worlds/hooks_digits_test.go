package worlds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/manager"
)

// TestWorldHooksLearnDigits: replicas whose gradients are sent by a hook die and come back,
// and reach the accuracy of plain training, but for a point; all leave in good order with the
// same model. The hook here has all that one can keep; TestWorldHooksAccuracy has each.
func TestWorldHooksLearnDigits(t *testing.T) {
	if testing.Short() {
		t.Skip("learns for hundreds of steps")
	}
	t.Parallel()
	plain := plainly(t, digitSeed)
	inWorld(t, usual(), func(w *world) {
		if got := learnsByHook(w, digits.HookFP16PowerSGD, digitSeed); got < plain-digitsOff {
			t.Errorf("accuracy %.4f, want %.4f at least", got, plain-digitsOff)
		}
	})
}

// TestWorldHooksAccuracy: over seeds that no setting was chosen by, each hook's mean
// accuracy, with replicas that die and come back, is plain training's, but for a point.
func TestWorldHooksAccuracy(t *testing.T) {
	t.Parallel()
	if *digitSeeds == 0 {
		t.Skip("-worlds.digits says how many seeds; make accuracy")
	}
	var plain float64
	sum := make(map[string]float64)
	for seed := uint64(firstDigitSeed); seed < firstDigitSeed+uint64(*digitSeeds); seed++ {
		one := plainly(t, seed)
		plain += one / float64(*digitSeeds)
		line := fmt.Sprintf("seed %d: plain %.4f", seed, one)
		for _, hook := range digits.Hooks() {
			inWorld(t, usual(), func(w *world) {
				got := learnsByHook(w, hook, seed)
				sum[hook] += got / float64(*digitSeeds)
				line += fmt.Sprintf("; %s %.4f", hook, got)
			})
		}
		t.Log(line)
	}
	meansAreNear(t, plain, sum)
}

// learnsByHook is learnsDigits of the trainer of examples/digits itself.
func learnsByHook(w *world, hook string, seed uint64) (accuracy float64) {
	trainers := make(map[*proc]*digits.Trainer)
	all := diesAndLearns(w, func(p *proc) func(context.Context) error {
		cfg := digits.Config{
			Seed: seed, Steps: digitSteps, Shard: digits.Shard{Index: p.r.index, Count: digitReplicas},
			StepTime: p.r.manners.forward, Hook: hook,
		}
		cfg.OnStep = func(r digits.Report) {
			if r.Committed {
				p.shows(0, []byte(trainers[p].Hash()))
			}
			p.atRest(r.Committed)
		}
		var err error
		if trainers[p], err = digits.NewTrainer(cfg, p.m); err != nil {
			w.t.Fatal(err)
		}
		return func(ctx context.Context) error {
			if err := trainers[p].Run(ctx); err != nil {
				return err
			}
			return errors.Join(trainers[p].Finish(ctx, 200*time.Millisecond), manager.ErrDrained)
		}
	})
	if all == nil {
		return 0
	}
	for _, r := range all {
		tr := trainers[r.ranks[0]]
		accuracy = tr.Accuracy()
		w.t.Logf("%s: %.4f after %d steps", r.name, accuracy, tr.Step())
		if tr.Step() != digitSteps || tr.Hash() != trainers[all[0].ranks[0]].Hash() {
			w.t.Errorf("%s has had %d steps, want all, and the others' bytes", r.name, tr.Step())
		}
	}
	return accuracy
}
