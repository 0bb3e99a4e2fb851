package worlds

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// The digits are learned in so many inner steps, by three replicas.
const (
	digitSteps    = 300
	digitReplicas = 3
	digitSeed     = 11
)

// firstDigitSeed is the first of digitSeeds.
const firstDigitSeed = 101

var digitSeeds = flag.Int("worlds.digits", 0, "learn digits from so many seeds, from 101 on, and hold the means against plain training's")

// digitLearner is examples/digits' model and optimizer, in rounds.
type digitLearner struct {
	p     *proc
	seed  uint64
	model *digits.Model
	sgd   *digits.SGD
	rows  *digits.Dataset
	d     *localsgd.Averager
	every int // inner steps of a round
}

// maker makes an Averager, in rounds of every inner steps.
type maker struct {
	every int
	seed  uint64
	make  func(m localsgd.Manager, params []localsgd.Param) (*localsgd.Averager, error)
}

// digitsOff is how far accuracy may be below that of plain training.
const digitsOff = 0.01

// newDigitLearner registers a learner's state.
func newDigitLearner(p *proc, by maker) *digitLearner {
	rows, _, err := digits.Load(by.seed)
	if err != nil {
		p.w.t.Fatal(err)
	}
	l := &digitLearner{p: p, seed: by.seed, model: digits.NewModel(by.seed + uint64(p.r.index)), rows: rows, every: by.every}
	l.sgd = digits.NewSGD(l.model.Params(), digitSteps)
	if l.d, err = by.make(p.m, paramsOf(l.model)); err != nil {
		p.w.t.Fatal(err)
	}
	return l
}

func paramsOf(m *digits.Model) []localsgd.Param {
	var params []localsgd.Param
	for _, p := range m.Params() {
		params = append(params, localsgd.Param{Name: p.Name, Value: tensor.Of(p.Value)})
	}
	return params
}

// turn is an inner step; after the last round, what Finish wants.
func (l *digitLearner) turn(ctx context.Context) error {
	if l.d.Done() {
		return errors.Join(l.p.m.Finish(ctx, time.Second, l.idle), manager.ErrDrained)
	}
	if err := l.d.Begin(ctx); err != nil {
		return err
	}
	if err := wait(ctx, l.p.r.manners.forward); err != nil {
		return err
	}
	l.sgd.Taken = min(max(l.sgd.Taken, l.d.Rounds()*int64(l.every)), digitSteps-1) // one that comes back has none
	l.sgd.ZeroGrad()
	shard := digits.Shard{Index: l.p.r.index, Count: digitReplicas}
	l.model.Learn(l.rows.Batch(l.seed, l.sgd.Taken, shard, digits.BatchRows), nil)
	l.sgd.Step()
	committed, err := l.d.Step(ctx)
	l.atRest(committed, err)
	return err
}

// idle is a round after the last.
func (l *digitLearner) idle(ctx context.Context) error {
	if err := wait(ctx, l.p.r.manners.forward); err != nil { // or no time would pass
		return err
	}
	before := l.p.m.Step()
	err := l.d.Idle(ctx)
	l.atRest(l.p.m.Step() > before, err)
	return err
}

// atRest gives the world's checkers a digest of the global parameters to look at.
func (l *digitLearner) atRest(committed bool, err error) {
	if committed {
		state := l.d.State().Tensors
		for i, name := range []string{"global.w1", "global.b1", "global.w2", "global.b2"} {
			l.p.shows(2*i, state[name].Bytes())
		}
	}
	if committed || err != nil {
		l.p.atRest(committed)
	}
}

// shows puts a digest of bytes into two of the parameters that the world's checkers look at.
func (p *proc) shows(at int, bytes []byte) {
	sum := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(bytes))
	p.params[at], p.params[at+1] = float32(int(sum[0])<<8|int(sum[1])), float32(int(sum[2])<<8|int(sum[3]))
}

// plainly is the accuracy of training in which each step's gradients are averaged.
func plainly(t *testing.T, seed uint64) float64 {
	t.Helper()
	rows, test, err := digits.Load(seed)
	if err != nil {
		t.Fatal(err)
	}
	model := digits.NewModel(seed)
	sgd := digits.NewSGD(model.Params(), digitSteps)
	for step := range int64(digitSteps) {
		sgd.ZeroGrad()
		for i := range digitReplicas {
			model.Learn(rows.Batch(seed, step, digits.Shard{Index: i, Count: digitReplicas}, digits.BatchRows), nil)
		}
		for _, p := range model.Params() {
			for i := range p.Grad {
				p.Grad[i] /= digitReplicas
			}
		}
		sgd.Step()
	}
	return model.Accuracy(test)
}

// makers are the ways to learn digits in rounds, each in float32 and in eight bits.
func makers(seed uint64) map[string]maker {
	outer := localsgd.SGD{Rate: 0.5, Momentum: 0.5, Nesterov: true} // few rounds bear less momentum than the paper's
	all := make(map[string]maker)
	for format, r := range map[string]localsgd.Reduction{
		"":       {},
		", int8": {Quantize: &quant.Options{Format: quant.Int8}},
		", fp8":  {Quantize: &quant.Options{Format: quant.E4M3}},
	} {
		all["LocalSGD"+format] = maker{10, seed, func(m localsgd.Manager, params []localsgd.Param) (*localsgd.Averager, error) {
			return localsgd.NewLocalSGD(m, params, localsgd.Config{Every: 10, Rounds: digitSteps / 10, Reduction: r})
		}}
		all["DiLoCo"+format] = maker{10, seed, func(m localsgd.Manager, params []localsgd.Param) (*localsgd.Averager, error) {
			return localsgd.NewDiLoCo(m, [][]localsgd.Param{params}, localsgd.DiLoCoConfig{
				Every: 10, Rounds: digitSteps / 10, Outer: outer, Reduction: r,
			})
		}}
		all["streaming DiLoCo"+format] = maker{5, seed, func(m localsgd.Manager, params []localsgd.Param) (*localsgd.Averager, error) {
			return localsgd.NewDiLoCo(m, [][]localsgd.Param{params[:2], params[2:]}, localsgd.DiLoCoConfig{
				Every: 10, Rounds: digitSteps / 5, Outer: outer, Delay: 1, Reduction: r,
			})
		}}
	}
	return all
}

// TestWorldLocalSGDLearnsDigits: with replicas that die and come back LocalSGD and DiLoCo
// reach the accuracy of plain training, but for a point, and all leave in good order with
// the same model. The quantised ways that are not here are in TestWorldLocalSGDAccuracy.
func TestWorldLocalSGDLearnsDigits(t *testing.T) {
	if testing.Short() {
		t.Skip("learns for a thousand rounds")
	}
	t.Parallel()
	plain := plainly(t, digitSeed)
	t.Logf("plain training: %.4f", plain)
	all := makers(digitSeed)
	for _, name := range testkit.Some([]string{"streaming DiLoCo", "LocalSGD", "DiLoCo", "DiLoCo, int8"}, 1) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) {
				if got := learnsDigits(w, all[name]); got < plain-digitsOff {
					t.Errorf("accuracy %.4f, want %.4f at least", got, plain-digitsOff)
				}
			})
		})
	}
}

// TestWorldLocalSGDAccuracy: over seeds that no setting was chosen by, each way's mean
// accuracy is plain training's, but for a point.
func TestWorldLocalSGDAccuracy(t *testing.T) {
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
		for _, name := range slices.Sorted(maps.Keys(makers(seed))) {
			inWorld(t, usual(), func(w *world) {
				got := learnsDigits(w, makers(seed)[name])
				sum[name] += got / float64(*digitSeeds)
				line += fmt.Sprintf("; %s %.4f", name, got)
			})
		}
		t.Log(line)
	}
	meansAreNear(t, plain, sum)
}

// meansAreNear holds mean accuracies against plain training's.
func meansAreNear(t *testing.T, plain float64, means map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(means)) {
		t.Logf("mean of %d seeds: plain %.4f, %s %.4f", *digitSeeds, plain, name, means[name])
		if means[name] < plain-digitsOff {
			t.Errorf("%s has a mean accuracy of %.4f, want %.4f at least", name, means[name], plain-digitsOff)
		}
	}
}

// learnsDigits lets replicas learn, die and come back, and gives their accuracy.
func learnsDigits(w *world, by maker) (accuracy float64) {
	learners := make(map[*proc]*digitLearner)
	all := diesAndLearns(w, func(p *proc) func(context.Context) error {
		learners[p] = newDigitLearner(p, by)
		return learners[p].turn
	})
	if all == nil {
		return 0
	}
	_, test, err := digits.Load(by.seed)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		l := learners[r.ranks[0]]
		accuracy = l.model.Accuracy(test)
		w.t.Logf("%s: %.4f after %d rounds", r.name, accuracy, l.d.Rounds())
		if !l.d.Done() || l.model.Hash() != learners[all[0].ranks[0]].model.Hash() {
			w.t.Errorf("%s has had %d rounds, want all, and the others' bytes", r.name, l.d.Rounds())
		}
		if err := l.d.Close(); err != nil {
			w.t.Error(err)
		}
	}
	return accuracy
}

// diesAndLearns runs replicas of a trainer to their end, while four of them die and come
// back. It returns nil if they do not get that far.
func diesAndLearns(w *world, trains func(p *proc) func(context.Context) error) []*replica {
	all := w.replicas(digitReplicas, manners{forward: 10 * time.Millisecond, trains: trains})
	for _, victim := range []int{1, 0, 2, 1} {
		if !w.reach(newestOf(all)+5, time.Minute, all...) {
			return nil
		}
		all[victim].kill()
		time.Sleep(75 * time.Millisecond)
		all[victim].start()
	}
	for _, r := range all {
		if !w.within(time.Minute, "all have left", r.ranks[0].over) {
			return nil
		}
	}
	return all
}
