package worlds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/durabletest"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/train/sampler"
)

// archive is a world whose replicas save to one directory, a real one, and go on from
// what is in it.
type archive struct {
	w       *world
	cfg     sampler.ElasticConfig
	path    string
	every   int64
	draw    *rand.Rand // of the script's goroutine
	birth   *keeper    // of the process that is being made
	readers map[*proc]*reader
	keepers map[*proc]*keeper
	torn    int // how often all have died in the middle of a write

	mu struct {
		sync.Mutex

		events []durable.Event
	}
}

// keeper is a rank's Checkpointer. Its store takes its time, and is gone with its
// process.
type keeper struct {
	c     *durable.Checkpointer
	found *durable.Found // nil: there was none
	dir   *localdir.Store
	once  sync.Once
	done  chan struct{}
}

// writeTime is how long each moment of an operation of a store takes at most: a write then
// lasts for some steps.
const writeTime = 12 * time.Millisecond

func (a *archive) keeper(p *proc) *keeper {
	k := &keeper{dir: a.open(), done: make(chan struct{})}
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(uint64(p.life), uint64(p.r.index*8+p.rank)))
	s := &durabletest.Faulty{Store: k.dir, Fault: func(string, string, durabletest.Moment) error {
		mu.Lock()
		takes := between(draw, 0, writeTime)
		mu.Unlock()
		time.Sleep(takes)
		if !p.alive() {
			return durabletest.ErrDead
		}
		return nil
	}}
	var err error
	k.c, err = durable.New(durable.Config{
		Store: s, Every: a.every, Keep: 2, MaxFileBytes: 512, WaitBusy: p.r.size > 1, GroupRank: p.rank, GroupWorldSize: p.r.size,
		OnEvent: a.note,
	})
	if err == nil {
		k.found, err = k.c.Find(a.w.t.Context())
	}
	if err != nil && !errors.Is(err, durable.ErrNone) {
		a.w.t.Fatal(err)
	}
	a.keepers[p] = k
	return k
}

func (a *archive) open() *localdir.Store {
	dir, err := localdir.New(localdir.Config{Path: a.path})
	if err != nil {
		a.w.t.Fatal(err)
	}
	return dir
}

func (a *archive) note(e durable.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.events = append(a.mu.events, e)
}

// manners make trainers that find, register, load and save as durable's doc.go has it.
func (a *archive) manners() manners {
	return manners{
		forward:  10 * time.Millisecond,
		tuneRank: func(p *proc) { a.birth = a.keeper(p) },
		tune: func(cfg *manager.Config) {
			if f := a.birth.found; f != nil {
				cfg.Start = manager.Start{Position: f.Position, Batches: f.Batches}
			}
		},
		trains: func(p *proc) func(context.Context) error { return a.trainer(p, a.birth) },
	}
}

func (a *archive) trainer(p *proc, k *keeper) func(context.Context) error {
	r := newReader(p, a.cfg, nil, nil)
	a.readers[p] = r
	err := errors.Join(
		k.c.Register("model", func() checkpointState { return stateOf(p.params) }, nil),
		k.c.Register("sampler", r.rows.State, r.rows.Load),
		k.c.Register("ledger", func() checkpointState { return stateOf(r.ledger) }, nil),
	)
	if err == nil && k.found != nil {
		err = k.c.Load(a.w.t.Context(), k.found)
	}
	if err != nil {
		a.w.t.Fatal(err)
	}
	r.rested = func(ctx context.Context) error { return k.c.AfterStep(ctx, p.m) }
	return func(ctx context.Context) error {
		k.once.Do(func() {
			go func() {
				defer close(k.done)
				_ = k.c.Run(ctx) // it has no other error than of a second Run
			}()
		})
		return r.turn(ctx)
	}
}

// kill kills replicas at one instant, and waits until nothing of them writes.
func (a *archive) kill(which ...*replica) {
	for _, r := range which {
		for _, p := range r.ranks {
			p.kill()
		}
	}
	for _, r := range which {
		r.kill()
		a.closed(r)
	}
}

// closed waits for the writers of a replica that has ended.
func (a *archive) closed(r *replica) {
	for _, p := range r.ranks {
		k := a.keepers[p]
		k.once.Do(func() { close(k.done) }) // it never began a turn
		<-k.done
		_ = k.dir.Close() // it was read and written
	}
}

// newest is the position of the newest checkpoint that is whole, as an onlooker sees
// it; zero: there is none.
func (a *archive) newest(size int) quorum.Position {
	dir := a.open()
	defer dir.Close() // it was read
	c, err := durable.New(durable.Config{Store: dir, GroupWorldSize: size})
	if err != nil {
		a.w.t.Fatal(err)
	}
	f, err := c.Find(a.w.t.Context())
	if err != nil {
		if !errors.Is(err, durable.ErrNone) {
			a.w.t.Error(err)
		}
		return quorum.Position{}
	}
	return f.Position
}

// written is the newest step that a writer was told of as written.
func (a *archive) written() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var step int64
	for _, e := range a.mu.events {
		if s, ok := e.(durable.Saved); ok {
			step = max(step, s.Position.Step)
		}
	}
	return step
}

// TestWorldAllDieAndGoOn: replicas die one by one and come back, and all die at one
// instant again and again, most of them in the middle of a write. They go on from the
// newest checkpoint that is whole, nothing is lost but the steps since, and at the end
// each sample has been read as often as epochs have passed, or once more.
func TestWorldAllDieAndGoOn(t *testing.T) {
	t.Parallel()
	torn := 0
	for size := 1; size <= 2; size++ {
		for _, seed := range testkit.Some([]uint64{0, 1}, 1) {
			t.Run(fmt.Sprintf("ranks %d, seed %d", size, seed), func(t *testing.T) {
				path := t.TempDir()
				inWorld(t, usual(), func(w *world) {
					a := &archive{
						w: w, cfg: sampler.ElasticConfig{Samples: 499, GlobalBatch: 13, Seed: seed}, path: path, every: 5,
						draw:    rand.New(rand.NewPCG(seed, uint64(size))),
						readers: make(map[*proc]*reader), keepers: make(map[*proc]*keeper),
					}
					a.script(size)
					torn += a.torn
				})
			})
		}
	}
	if torn == 0 && testkit.All() { // of one world for each size too few die
		t.Error("no death of all was in the middle of a write")
	}
}

func (a *archive) script(size int) {
	w := a.w
	var all []*replica
	for i := range 3 {
		all = append(all, w.replica(string(rune('a'+i)), i, size, a.manners()).start())
	}
	w.reach(20, time.Minute, all...)
	deaths := 0
	for round := range 12 {
		time.Sleep(between(a.draw, time.Millisecond, 200*time.Millisecond))
		if round%2 == 0 {
			i := a.draw.IntN(len(all))
			a.kill(all[i])
			time.Sleep(between(a.draw, time.Millisecond, 100*time.Millisecond))
			all[i].start()
		} else {
			a.killAll(all, size)
			deaths++
		}
		if !w.reach(newestOf(all)+int64(2+a.draw.IntN(12)), time.Minute, all...) {
			break
		}
	}
	w.reach(2*499/13+10, time.Minute, all...) // two epochs
	for _, r := range all {
		r.drainAll()
		a.closed(r)
	}
	checkLedgers(w, a.cfg, a.readers, all)
	if deaths != 6 {
		w.t.Errorf("all died %d times, want 6", deaths)
	}
}

// killAll kills all at one instant, starts them, and holds where they begin against what is
// in the directory.
func (a *archive) killAll(all []*replica, size int) {
	a.kill(all...)
	was, written := a.newest(size), a.written()
	if size == 1 && was.Step < written {
		a.w.t.Errorf("the newest checkpoint is of step %d; step %d was written", was.Step, written)
	}
	for _, r := range all {
		r.start()
	}
	if f := a.keepers[all[0].ranks[0]].found; f != nil && len(f.Rejected) > 0 {
		a.torn++
	}
	for _, r := range all {
		for _, p := range r.ranks {
			if f := a.keepers[p].found; f == nil || f.Position != was {
				a.w.t.Errorf("%s goes on from %v, want %+v", p.name, f, was)
			}
		}
	}
}
