package worlds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// local is a trainer that reduces once in many inner steps. What the world's checkers look
// at, the rank's parameters, is a copy of the global ones, made at each commit.
type local struct {
	p    *proc
	s    *school
	live [][]float32
	d    *localsgd.Averager

	inner int // steps, of this life
	since int // of them, since the round began
}

// school is the local trainers of a world: what they learn by, and what became of
// it. Safe for concurrent use.
type school struct {
	every, fragments int
	late             bool // reductions go beside inner steps
	make             func(m localsgd.Manager, params [][]localsgd.Param) (*localsgd.Averager, error)

	mu           sync.Mutex
	locals       map[*proc]*local
	healedFirst  uint64 // how often a rank healed in Begin
	healedBeside uint64 // in the last Step of a round
	discarded    uint64 // rounds, on all ranks
}

// newLocal registers a trainer's state. Its parameters are cut into fragments evenly.
func (s *school) newLocal(p *proc) *local {
	l := &local{p: p, s: s}
	var params [][]localsgd.Param
	for i := range s.fragments {
		values := slices.Clone(p.params[i*modelSize/s.fragments : (i+1)*modelSize/s.fragments])
		l.live = append(l.live, values)
		half := len(values) / 2
		params = append(params, []localsgd.Param{
			{Name: fmt.Sprintf("a%d", i), Value: tensor.Of(values[:half])}, {Name: fmt.Sprintf("b%d", i), Value: tensor.Of(values[half:])},
		})
	}
	var err error
	if l.d, err = s.make(p.m, params); err != nil {
		p.w.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locals[p] = l
	return l
}

// turn is an inner step, as localsgd's doc.go has it.
func (l *local) turn(ctx context.Context) error {
	p := l.p
	p.pass(ctx, stagePause)
	before := p.m.Stats()
	if err := l.d.Begin(ctx); err != nil {
		return err
	}
	if n := p.m.Stats().Heals - before.Heals; n > 0 {
		l.s.count(&l.s.healedFirst, n)
		l.since = 0
	}
	p.pass(ctx, stageStarted)
	if err := wait(ctx, p.r.manners.forward); err != nil {
		return err
	}
	l.learn()
	if l.since++; l.since == l.s.every/l.s.fragments {
		p.pass(ctx, stageBallot)
	}
	before = p.m.Stats()
	committed, err := l.d.Step(ctx)
	if committed {
		l.publish()
	}
	if committed || err != nil {
		p.atRest(committed)
	}
	after := p.m.Stats()
	if after.Commits > before.Commits || after.Discards > before.Discards {
		l.since = 0
	}
	l.s.count(&l.s.healedBeside, after.Heals-before.Heals)
	if err == nil && after.Discards > before.Discards {
		l.s.count(&l.s.discarded, 1)
		l.isBack()
	}
	p.pass(ctx, stageEnded)
	return err
}

func (s *school) count(n *uint64, more uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += more
}

// isBack: after a discarded round the live parameters of its fragment are the global ones.
func (l *local) isBack() {
	f := int(l.p.m.Step()) % len(l.live)
	if global := l.global(f); !slices.Equal(l.live[f], global) {
		l.p.w.t.Errorf("%s: after a discarded round fragment %d is %v, want the global %v", l.p.name, f, l.live[f], global)
	}
}

// global are the global parameters of a fragment.
func (l *local) global(f int) (all []float32) {
	state := l.d.State()
	for _, name := range []string{"a", "b"} {
		all = append(all, tensor.Slice[float32](state.Tensors[fmt.Sprintf("global.%s%d", name, f)])...)
	}
	return all
}

// learn moves the live parameters, each replica to another place.
func (l *local) learn() {
	l.inner++
	for f, values := range l.live {
		for i := range values {
			target := float32((l.p.r.index*7+l.p.rank+i+f)%11) + float32(l.inner%3)
			values[i] += (target - values[i]) / 16
		}
	}
}

// publish copies the global parameters to where the world's checkers look.
func (l *local) publish() {
	at := 0
	for f := range l.live {
		at += copy(l.p.params[at:], l.global(f))
	}
}

// schools are the algorithms.
func schools() map[string]*school {
	sgd := localsgd.SGD{Rate: 0.7, Momentum: 0.9, Nesterov: true}
	diloco := func(every, fragments int, c localsgd.DiLoCoConfig) *school {
		c.Every, c.Outer = every, sgd
		return &school{every: every, fragments: fragments, late: c.Delay > 0,
			make: func(m localsgd.Manager, params [][]localsgd.Param) (*localsgd.Averager, error) {
				return localsgd.NewDiLoCo(m, params, c)
			}}
	}
	int8s := localsgd.Reduction{Quantize: &quant.Options{Row: 4}, BucketBytes: 32}
	e4m3 := localsgd.Reduction{Quantize: &quant.Options{Format: quant.E4M3, Row: 3}}
	return map[string]*school{
		"LocalSGD": {every: 4, fragments: 1,
			make: func(m localsgd.Manager, params [][]localsgd.Param) (*localsgd.Averager, error) {
				return localsgd.NewLocalSGD(m, params[0], localsgd.Config{Every: 4})
			}},
		"DiLoCo":                     diloco(5, 1, localsgd.DiLoCoConfig{Reduction: localsgd.Reduction{BucketBytes: 20}}),
		"DiLoCo, int8":               diloco(3, 1, localsgd.DiLoCoConfig{Reduction: int8s}),
		"streaming":                  diloco(8, 4, localsgd.DiLoCoConfig{}),
		"streaming, late":            diloco(12, 2, localsgd.DiLoCoConfig{Delay: 3, Alpha: 0.25}),
		"streaming, late, quantised": diloco(8, 2, localsgd.DiLoCoConfig{Delay: 2, Reduction: e4m3}),
	}
}

// behave are the manners of the school's replicas.
func (s *school) behave(m manners) manners {
	s.locals = make(map[*proc]*local)
	m.forward = 5 * time.Millisecond
	m.trains = func(p *proc) func(context.Context) error { return s.newLocal(p).turn }
	return m
}

// TestWorldLocalSGD: replicas die in inner steps and in reductions, and come back twelve
// times, with a manager that waits for heals and one that does not. Whenever two end up at a
// step their global states are the same, and so are the live parameters of all at the end.
func TestWorldLocalSGD(t *testing.T) {
	t.Parallel()
	for name, s := range schools() {
		for _, sync := range []bool{false, true} {
			for size := 1; size <= 2; size++ {
				if (testing.Short() || !testkit.All()) && (size == 1) != sync {
					continue
				}
				t.Run(fmt.Sprintf("%s, sync %t, ranks %d", name, sync, size), func(t *testing.T) {
					inWorld(t, usual(), func(w *world) { s.comeAndGo(w, sync, size) })
				})
			}
		}
	}
}

func (s *school) comeAndGo(w *world, sync bool, size int) {
	m := s.behave(manners{
		heals: 30 * time.Millisecond, // beside inner steps
		tune:  func(cfg *manager.Config) { cfg.Sync, cfg.ParityEvery = sync, 1 },
	})
	s.healedFirst, s.healedBeside = 0, 0
	draw := rand.New(rand.NewPCG(uint64(s.every), uint64(size)))
	var all []*replica
	for i := range 3 {
		all = append(all, w.replica(string(rune('a'+i)), i, size, m).start())
	}
	w.reach(10, time.Minute, all...)
	for range few(12) {
		i := draw.IntN(len(all))
		if draw.IntN(2) == 0 {
			all[i].dieIn(stageBallot)
		} else {
			all[i].kill()
		}
		time.Sleep(between(draw, time.Millisecond, 200*time.Millisecond))
		all[i].start()
		if !w.reach(newestOf(all)+int64(draw.IntN(6)), time.Minute, all...) {
			return
		}
	}
	if !w.reach(newestOf(all)+8, time.Minute, all...) {
		return
	}
	for _, r := range all {
		r.drainAll()
	}
	least := uint64(few(6))
	discards := least
	if s.late { // a death after the reduction may be settled as a commit
		discards = 0
	}
	if healed := s.healedFirst; sync && healed < least || !sync && s.healedBeside < least || s.discarded < discards {
		w.t.Errorf("ranks have healed %d times in Begin and %d times beside a round, and discarded %d rounds, want %d and more, and %d",
			healed, s.healedBeside, s.discarded, least, discards)
	}
	s.check(w, all)
}

// dieIn kills a replica when its group rank 0 has come to a stage, where it stays while the
// others go on.
func (r *replica) dieIn(at stage) {
	there := make(chan struct{})
	var once sync.Once
	r.orders.Store(&order{at: at, do: func(ctx context.Context, p *proc) {
		if p.rank == 0 {
			once.Do(func() { close(there) })
			<-ctx.Done()
		}
	}})
	<-there
	time.Sleep(20 * time.Millisecond)
	r.orders.Store(nil)
	r.kill()
}

// check: the newest states of all are copies of their own global parameters, which the
// book has compared, and what is at rest of one rank and step is the same all over.
func (s *school) check(w *world, all []*replica) {
	type key struct {
		rank int
		at   int64
	}
	known := make(map[key][]byte)
	for _, r := range all {
		for _, p := range r.ranks {
			l := s.locals[p]
			k := key{p.rank, p.m.Position().Step}
			var bytes []byte
			state := l.d.State()
			for i := range s.fragments {
				for _, name := range []string{"global.a", "global.b", "momentum.a", "momentum.b"} {
					if x, ok := state.Tensors[fmt.Sprintf("%s%d", name, i)]; ok {
						bytes = append(bytes, x.Bytes()...)
					}
				}
			}
			bytes = append(bytes, state.Tensors["counters"].Bytes()...)
			if old, ok := known[k]; ok && !slices.Equal(old, bytes) {
				w.t.Errorf("rank %d of %s: another state at step %d than another replica", p.rank, r.name, k.at)
			}
			known[k] = bytes
			if l.d.Rounds() != k.at {
				w.t.Errorf("%s has had %d rounds at step %d", p.name, l.d.Rounds(), k.at)
			}
			if err := l.d.Close(); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// TestWorldLocalSGDDiscards: an error that is reported discards a round everywhere; the live
// parameters of its fragment are the last global ones then, and the round is tried again.
func TestWorldLocalSGDDiscards(t *testing.T) {
	t.Parallel()
	for name, s := range schools() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) { s.discards(w) })
		})
	}
}

func (s *school) discards(w *world) {
	const bad = 6 // reports, of replica a
	reports := 0
	m := s.behave(manners{})
	m.at = func(_ context.Context, p *proc, at stage) {
		if at == stageBallot && p.r.index == 0 && p.m.Step() >= 5 && reports < bad && p.m.Errored() == nil {
			reports++
			p.m.ReportError(errEnded)
		}
	}
	all := w.replicas(2, m)
	if !w.reach(20, time.Minute, all...) {
		return
	}
	if s.discarded < 2*bad {
		w.t.Errorf("%d rounds were discarded on two replicas, want %d at least", s.discarded, 2*bad)
	}
}

// TestWorldLongRounds: rounds are longer than StepTimeout. A replica in the middle of one is not
// away: when another dies it joins the next quorum at once, and its inner steps are not lost.
func TestWorldLongRounds(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout = 10 * time.Second
	inWorld(t, o, func(w *world) {
		s := schools()["DiLoCo"] // of 5 inner steps
		m := s.behave(manners{})
		m.forward = 4 * time.Second
		all := w.replicas(3, m)
		w.reach(2, time.Minute, all...)
		time.Sleep(15 * time.Second) // into the fourth inner step
		quorum := all[0].ranks[0].m.QuorumID()
		all[2].kill()
		w.within(5*time.Second, "the next quorum forms", func() bool {
			return all[0].ranks[0].m.QuorumID() != quorum && all[1].ranks[0].m.QuorumID() != quorum
		})
		w.reach(3, 6*time.Second, all[:2]...)
		if s.discarded != 0 {
			w.t.Errorf("%d rounds were discarded, want none", s.discarded)
		}
	})
}

// TestWorldSlowRounds: a replica that others wait for, longer than StuckAfter, is not stuck
// while it makes inner steps.
func TestWorldSlowRounds(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout = 10 * time.Minute
	inWorld(t, o, func(w *world) {
		s := schools()["DiLoCo"]
		m := s.behave(manners{})
		m.forward = time.Second
		a := w.replica("a", 0, 1, m).start()
		m.forward = 45 * time.Second // StuckAfter is a minute: a waits for more than three
		b := w.replica("b", 1, 1, m).start()
		w.reach(3, 20*time.Minute, a, b)
		if s.discarded != 0 {
			w.t.Errorf("%d rounds were discarded, want none", s.discarded)
		}
	})
}
