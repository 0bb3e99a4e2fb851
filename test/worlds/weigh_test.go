package worlds

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/sampler"
)

// weigher is a trainer under a constant global batch: a sampler deals the samples of each
// step out, and a Reducer weighs each replica's mean gradient by the samples that it is of.
// Its model is a linear one, and the ledger of its reader.
type weigher struct {
	*reader
	cfg     sampler.ElasticConfig
	red     *ddp.Reducer
	weights []float32 // registered
	grad    []float32 // of weights
	ones    []float32 // the ledger's gradient
}

// The data: rows of so many features, and a target.
const weighedFeatures = 5

// weighedRow draws a row of the dataset.
func weighedRow(i int) (x [weighedFeatures]float32, y float32) {
	draw := rand.New(rand.NewPCG(uint64(i), 9))
	for k := range x {
		x[k] = float32(draw.NormFloat64())
		y += float32(k-2) * x[k]
	}
	return x, y + float32(draw.NormFloat64())
}

// weighedMean adds the mean gradient of the squared error over rows to grad.
func weighedMean(weights, grad []float32, rows []int) {
	for _, row := range rows {
		x, y := weighedRow(row)
		off := -y
		for k, v := range x {
			off += weights[k] * v
		}
		for k, v := range x {
			grad[k] += 2 * off * v / float32(len(rows))
		}
	}
}

// weighedUpdate is the optimizer's step.
func weighedUpdate(weights, grad []float32) {
	for k, g := range grad {
		weights[k] -= 0.02 * g
	}
}

func newWeigher(p *proc, cfg sampler.ElasticConfig) *weigher {
	l := &weigher{
		reader: newReader(p, cfg, nil, nil), cfg: cfg,
		weights: make([]float32, weighedFeatures), grad: make([]float32, weighedFeatures), ones: make([]float32, cfg.Samples),
	}
	var err error
	l.red, err = ddp.New(p.m, []ddp.Param{
		{Name: "weights", Grad: tensor.Of(l.grad)}, {Name: "ledger", Grad: tensor.Of(l.ones)},
	}, ddp.Options{BucketBytes: 64, FirstBucketBytes: 64}) // two buckets
	err = errors.Join(err,
		p.m.Register("weights", func() checkpoint.State { return stateOf(l.weights) }, nil),
		p.m.Register("ddp", l.red.State, l.red.Load))
	if err != nil {
		p.w.t.Fatal(err)
	}
	return l
}

// turn is a step as the documents of sampler and ddp have it together.
func (l *weigher) turn(ctx context.Context) error {
	m := l.p.m
	l.p.pass(ctx, stagePause)
	err := m.StartQuorum(ctx)
	if err != nil || !m.IsHealing() {
		l.p.atRest(false)
	}
	if err != nil {
		return err
	}
	l.p.pass(ctx, stageStarted)
	part, err := m.WaitParticipants(ctx)
	switch {
	case err == nil:
		if err := l.backward(ctx, l.rows.Next(sampler.ShareOf(part.Rank, part.Count, 0, 1))); err != nil {
			return err
		}
	case !errors.Is(err, manager.ErrStepFailed):
		return err
	}
	l.p.pass(ctx, stageBallot)
	committed, err := m.ShouldCommit(ctx)
	if committed {
		l.update()
	}
	l.p.atRest(committed)
	return err
}

// backward computes this replica's mean gradients, and makes of them those of the step.
func (l *weigher) backward(ctx context.Context, step sampler.Step) error {
	clear(l.grad)
	clear(l.ones)
	weighedMean(l.weights, l.grad, step.Rows)
	for _, row := range step.Rows {
		l.ones[row] = 1 / float32(len(step.Rows))
	}
	l.red.Weigh(len(step.Rows), step.Total)
	if err := wait(ctx, l.p.r.manners.forward); err != nil {
		return err
	}
	for i := range 2 {
		l.red.Ready(i)
	}
	return l.red.Reduce(ctx)
}

// update applies the step.
func (l *weigher) update() {
	weighedUpdate(l.weights, l.grad)
	// How many samples the step had follows from the cursor as it is now: a replica that was
	// healed beside the step had another one when it called Next.
	total := min(l.cfg.GlobalBatch, l.cfg.Samples-l.rows.Read())
	for i, g := range l.ones {
		n := math.Round(float64(g) * float64(total))
		if off := float64(g)*float64(total) - n; math.Abs(off) > 1e-4 {
			l.p.w.t.Errorf("%s: sample %d counts for %v in a step of %d", l.p.name, i, g, total)
		}
		l.ledger[i] += float32(n)
	}
	l.rows.Commit()
	l.red.Commit()
	copy(l.p.params, l.weights)
}

// TestWorldConstantGlobalBatch: replicas join, die and come back, and a step has the same
// samples whoever takes part. The parameters that they commit are those of one trainer that
// walks over the same samples, but for the order in which floats are added; and every sample
// is read once in each epoch.
func TestWorldConstantGlobalBatch(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sampler.ElasticConfig{
		"uneven shares": {Samples: 101, GlobalBatch: 7, Seed: 3},
		"empty shares":  {Samples: 50, GlobalBatch: 3, Seed: 4}, // of four replicas one has none
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) { globalBatch(w, cfg) })
		})
	}
}

func globalBatch(w *world, cfg sampler.ElasticConfig) {
	weighers, readers := make(map[*proc]*weigher), make(map[*proc]*reader)
	m := manners{forward: 10 * time.Millisecond, trains: func(p *proc) func(context.Context) error {
		l := newWeigher(p, cfg)
		weighers[p], readers[p] = l, l.reader
		return l.turn
	}}
	draw := rand.New(rand.NewPCG(cfg.Seed, 1))
	all := w.replicas(2, m)
	w.reach(10, time.Minute, all...)
	for _, name := range []string{"c", "d"} { // these join later
		all = append(all, w.replica(name, len(all), 1, m).start())
		w.reach(newestOf(all)+10, time.Minute, all...)
	}
	for range 10 {
		i := draw.IntN(len(all))
		all[i].kill()
		time.Sleep(between(draw, time.Millisecond, 200*time.Millisecond))
		all[i].start()
		if !w.reach(newestOf(all)+int64(draw.IntN(8)), time.Minute, all...) {
			return
		}
	}
	w.reach(newestOf(all)+10, time.Minute, all...)
	for _, r := range all {
		r.drainAll()
	}
	checkLedgers(w, cfg, readers, all)
	for _, r := range all {
		weighers[r.ranks[0]].isPlain(cfg)
	}
}

// isPlain holds the parameters against those of a trainer that is alone.
func (l *weigher) isPlain(cfg sampler.ElasticConfig) {
	t := l.p.w.t
	rows, err := sampler.NewElastic(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, weighedFeatures)
	for range l.p.atStep() {
		grad := make([]float32, weighedFeatures)
		weighedMean(want, grad, rows.Next(sampler.Share{Rank: 0, Count: 1}).Rows)
		weighedUpdate(want, grad)
		rows.Commit()
	}
	for k, got := range l.weights {
		if math.Abs(float64(got-want[k])) > 1e-5 {
			t.Errorf("%s: weight %d is %v after %d steps, want %v", l.p.name, k, got, l.p.atStep(), want[k])
		}
	}
	if rows.Epoch() != l.rows.Epoch() || rows.Read() != l.rows.Read() {
		t.Errorf("%s: its cursor is at sample %d of epoch %d, want %d of %d",
			l.p.name, l.rows.Read(), l.rows.Epoch(), rows.Read(), rows.Epoch())
	}
}
