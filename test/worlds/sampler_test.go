package worlds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/sampler"
)

// reader is a trainer whose model is the ledger of what it has read: the gradient of a
// sample is a one in its place, and the optimizer adds the sums up. So the model says,
// whatever happened, how often each sample has gone into it.
type reader struct {
	p      *proc
	disk   *disk // nil: it keeps no checkpoints there
	rows   *sampler.Elastic
	ledger []float32 // registered

	// rested is called after each turn, between two steps; nil: nothing is.
	rested func(ctx context.Context) error
}

// saved is what a durable checkpoint holds of a rank.
type saved struct {
	start          manager.Start
	params, ledger []float32
	cursor         []byte
	meta           map[string]string
}

// disk keeps the newest checkpoint of each group rank, whichever replica wrote it. Safe
// for concurrent use.
type disk struct {
	mu sync.Mutex

	newest map[int]saved
}

func (d *disk) write(rank int, s saved) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest[rank] = s
}

// read returns nil if there is none.
func (d *disk) read(rank int) *saved {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.newest[rank]; ok {
		return &s
	}
	return nil
}

// newReader registers a reader's state. from is nil, or what it goes on from.
func newReader(p *proc, cfg sampler.ElasticConfig, d *disk, from *saved) *reader {
	rows, err := sampler.NewElastic(cfg)
	if err != nil {
		p.w.t.Fatal(err)
	}
	r := &reader{p: p, disk: d, rows: rows, ledger: make([]float32, cfg.Samples)}
	if from != nil {
		copy(p.params, from.params)
		copy(r.ledger, from.ledger)
		s := rows.State()
		copy(s.Tensors["cursor"].Bytes(), from.cursor)
		s.Meta = from.meta
		if err := rows.Load(s); err != nil {
			p.w.t.Fatal(err)
		}
	}
	err = errors.Join(
		p.m.Register("sampler", rows.State, rows.Load),
		p.m.Register("ledger", func() checkpoint.State { return stateOf(r.ledger) }, nil),
	)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return r
}

// turn is a step as sampler's doc.go has it.
func (r *reader) turn(ctx context.Context) error {
	m := r.p.m
	r.p.pass(ctx, stagePause)
	err := m.StartQuorum(ctx)
	if err != nil || !m.IsHealing() {
		r.p.atRest(false)
	}
	if err != nil {
		return err
	}
	r.p.pass(ctx, stageStarted)
	grad := make([]float32, len(r.ledger))
	part, err := m.WaitParticipants(ctx)
	switch {
	case err == nil:
		step := r.rows.Next(sampler.ShareOf(part.Rank, part.Count, r.p.rank, r.p.r.size))
		for _, row := range step.Rows {
			grad[row]++
		}
		if err := wait(ctx, r.p.r.manners.forward); err != nil {
			return err
		}
		_ = m.Group().AllReduce(ctx, tensor.Of(grad), tensor.Sum) // reported
	case !errors.Is(err, manager.ErrStepFailed):
		return err
	}
	r.p.pass(ctx, stageBallot)
	committed, err := m.ShouldCommit(ctx)
	if committed {
		for i, g := range grad {
			r.ledger[i] += g
		}
		r.rows.Commit()
	}
	r.p.atRest(committed)
	if err == nil && committed && r.disk != nil && m.Step()%10 == 0 {
		r.save()
	}
	if err == nil && r.rested != nil {
		err = r.rested(ctx)
	}
	return err
}

func (r *reader) save() {
	s := r.rows.State()
	r.disk.write(r.p.rank, saved{
		start:  manager.Start{Position: r.p.m.Position(), Batches: r.p.m.BatchesCommitted()},
		params: slices.Clone(r.p.params), ledger: slices.Clone(r.ledger),
		cursor: slices.Clone(s.Tensors["cursor"].Bytes()), meta: s.Meta,
	})
}

// class is the readers of a world, by rank.
type class struct {
	w       *world
	cfg     sampler.ElasticConfig
	disk    disk
	resumes bool // from disk
	readers map[*proc]*reader
}

func (c *class) manners() manners {
	return manners{
		forward: 10 * time.Millisecond,
		tune: func(cfg *manager.Config) {
			if s := c.from(cfg.GroupRank); s != nil {
				cfg.Start = s.start
			}
		},
		trains: func(p *proc) func(context.Context) error {
			r := newReader(p, c.cfg, &c.disk, c.from(p.rank))
			c.readers[p] = r
			return r.turn
		},
	}
}

// from is what a rank goes on from that starts now.
func (c *class) from(rank int) *saved {
	if !c.resumes {
		return nil
	}
	return c.disk.read(rank)
}

// TestWorldEverySampleOnce: replicas die and come back 24 times, then all die at once
// and go on from the newest checkpoint; and whenever two replicas end up at a step,
// each sample has been read as often as epochs have passed, or once more.
func TestWorldEverySampleOnce(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sampler.ElasticConfig{
		"batch of each":   {Samples: 499, Batch: 4, Seed: 5},
		"batch of all":    {Samples: 499, GlobalBatch: 13, Seed: 6},
		"more than there": {Samples: 7, Batch: 4, Seed: 7},
	} {
		for size := 1; size <= 2 && (size == 1 || cfg.GlobalBatch > 0); size++ {
			t.Run(fmt.Sprintf("%s, ranks %d", name, size), func(t *testing.T) {
				inWorld(t, usual(), func(w *world) { changesAndDeath(w, cfg, size) })
			})
		}
	}
}

func changesAndDeath(w *world, cfg sampler.ElasticConfig, size int) {
	c := &class{w: w, cfg: cfg, readers: make(map[*proc]*reader)}
	c.disk.newest = make(map[int]saved)
	draw := rand.New(rand.NewPCG(cfg.Seed, uint64(size)))
	var all []*replica
	for i := range 3 {
		all = append(all, w.replica(string(rune('a'+i)), i, size, c.manners()).start())
	}
	w.reach(20, time.Minute, all...)
	for range 12 {
		i := draw.IntN(len(all))
		all[i].kill()
		time.Sleep(between(draw, time.Millisecond, 300*time.Millisecond))
		all[i].start()
		target := newestOf(all) + int64(draw.IntN(12))
		if !w.reach(target, time.Minute, all...) {
			return
		}
	}
	for _, r := range all {
		r.kill()
	}
	c.resumes = true
	for _, r := range all {
		r.start()
	}
	if !w.reach(newestOf(all)+40, time.Minute, all...) {
		return
	}
	for _, r := range all {
		r.drainAll()
	}
	c.check(all)
}

// newestOf is the newest step that any rank has made its own.
func newestOf(all []*replica) int64 {
	var newest int64
	for _, r := range all {
		for _, p := range r.ranks {
			newest = max(newest, p.atStep())
		}
	}
	return newest
}

// drainAll lets the replica leave, so that its model stands still.
func (r *replica) drainAll() {
	r.ranks[0].drain()
	for _, p := range r.ranks {
		r.w.within(time.Minute, "the loop ends", p.over)
	}
}

// check sums the ledgers of each replica's ranks up, and holds them against its cursor.
func (c *class) check(all []*replica) { checkLedgers(c.w, c.cfg, c.readers, all) }

func checkLedgers(w *world, cfg sampler.ElasticConfig, readers map[*proc]*reader, all []*replica) {
	for _, r := range all {
		sum := make([]float32, cfg.Samples)
		rows := readers[r.ranks[0]].rows
		for _, p := range r.ranks {
			for i, n := range readers[p].ledger {
				sum[i] += n
			}
		}
		again := 0
		for i, n := range sum {
			switch int64(n) - rows.Epoch() {
			case 0:
			case 1:
				again++
			default:
				w.t.Errorf("%s: sample %d was read %v times in %d epochs", r.name, i, n, rows.Epoch())
			}
		}
		if again != rows.Read() || rows.Epoch() < 2 {
			w.t.Errorf("%s: %d samples of epoch %d are read, its cursor says %d, want two epochs at least",
				r.name, again, rows.Epoch(), rows.Read())
		}
	}
}
