package worlds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// stage is a place in the trainer's loop.
type stage int

const (
	stagePause   stage = iota // before StartQuorum: evaluation, saving, loading
	stageStarted              // StartQuorum has returned
	stageBetween              // between two collectives
	stageBallot               // before ShouldCommit
	stageEnded                // ShouldCommit has returned
	stages
)

func (s stage) String() string {
	return [...]string{"pausing", "in the forward pass", "between collectives", "before ShouldCommit", "after ShouldCommit"}[s]
}

// call is one of the manager's that a trainer makes.
type call int

const (
	callStart call = iota
	callReduce
	callCommit
	calls
)

func (c call) String() string { return [...]string{"StartQuorum", "AllReduce", "ShouldCommit"}[c] }

// manners are how a replica's trainers behave. They are read while it runs: change
// them only from its own hooks, or while the world holds still.
type manners struct {
	pause, forward time.Duration
	staging, heals time.Duration
	healFails      bool
	odd            bool // other collectives than everybody else's
	skips          bool // leaves one of the collectives out
	async          bool // leaves it to ShouldCommit to wait for the collectives

	// at is called at each stage; it may wait, report an error, or never return
	// until ctx ends. nil: nothing.
	at func(ctx context.Context, p *proc, s stage)
	// start are the wishes of a StartQuorum. nil: none.
	start func(p *proc) manager.StartOptions
	// ctxFor gives a call its ctx. nil: the process's own.
	ctxFor func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc)
	// tuneRank changes a rank before it starts. nil: nothing.
	tuneRank func(p *proc)
	// tune changes each rank's configuration. nil: nothing.
	tune func(*manager.Config)
	// trains makes another trainer than this package's own: it registers its state
	// with p.m, and returns what a turn of its loop is. nil: the own one.
	trains func(p *proc) func(ctx context.Context) error
}

// replica is a replica group through all its incarnations.
type replica struct {
	w       *world
	name    string
	index   int // its slot in what is reduced
	size    int
	manners manners
	orders  atomic.Pointer[order]
	trap    atomic.Pointer[trap]
	ranks   []*proc // of the incarnation that runs, or ran last
	births  int
	groups  *store.Server
	ended   chan struct{} // of the group store
}

// order is what a script wants of a replica that runs: at a stage, from now on.
type order struct {
	at stage
	do func(ctx context.Context, p *proc)
}

// replica makes one of size ranks; start starts it.
func (w *world) replica(name string, index, size int, m manners) *replica {
	return &replica{w: w, name: name, index: index, size: size, manners: m}
}

// quick are the manners of a trainer with short steps.
func quick() manners { return manners{forward: 10 * time.Millisecond} }

// replicas starts n replicas of one rank, a, b, c…
func (w *world) replicas(n int, m manners) []*replica {
	var all []*replica
	for i := range n {
		all = append(all, w.replica(string(rune('a'+i)), i, 1, m).start())
	}
	return all
}

// proc is one rank's process.
type proc struct {
	r       *replica
	w       *world
	name    string
	rank    int
	life    int // which incarnation of the replica
	host    *nettest.Host
	backend *pgtest.MemoryBackend
	healer  *healer
	m       *manager.Manager
	stays   atomic.Int64 // drains that were taken back
	params  []float32
	inPlace bool // HealInPlace
	turn    func(ctx context.Context) error
	cancel  context.CancelFunc
	ran     chan struct{}
	done    chan struct{}

	mu struct {
		sync.Mutex

		dead    bool
		stage   stage
		hung    bool
		slow    bool            // computes for longer than StuckAfter
		wasSlow bool            // did so ever
		leaves  bool            // drains
		at      quorum.Position // at rest, newest
		last    time.Duration   // of the newest commit
		first   time.Duration   // of the first one; 0: none
		err     error           // the loop ended with it
	}
}

// slots are the first elements of what is reduced: one for each replica, so that
// each average says who contributed.
const (
	slots     = 8
	modelSize = 16
)

// start starts a new incarnation.
func (r *replica) start() *replica {
	r.births++
	r.ranks = nil
	life := fmt.Sprintf("%s%d", r.name, r.births)
	r.w.book.note(life, "starts")
	group := ""
	if r.size > 1 {
		group = r.groupStore(life)
	}
	for rank := range r.size {
		r.ranks = append(r.ranks, r.spawn(life, rank, group))
	}
	for _, p := range r.ranks {
		p.run()
	}
	return r
}

// groupStore serves the store that the ranks of one incarnation share.
func (r *replica) groupStore(life string) string {
	ln, err := r.w.net.Host(life + ".group").Listen("127.0.0.1:0")
	if err == nil {
		r.groups, err = store.NewServer(store.ServerConfig{Listener: ln})
	}
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func(s *store.Server, ended chan struct{}) {
		defer close(ended)
		_ = s.Run(context.Background()) // closed by the world
	}(r.groups, r.ended)
	return r.groups.Addr() + "/" + life
}

func (r *replica) spawn(life string, rank int, group string) *proc {
	p := &proc{r: r, w: r.w, name: fmt.Sprintf("%s.%d", life, rank), rank: rank, life: r.births, params: make([]float32, modelSize)}
	p.ran, p.done = make(chan struct{}), make(chan struct{})
	for i := range p.params {
		p.params[i] = float32(100*r.index + 10*r.births + rank + i) // different everywhere: init sync must mend it
	}
	p.host = r.w.net.Host(p.name)
	p.backend = r.w.plane.Backend()
	p.healer = r.w.heals.healer(p.name)
	p.healer.staging, p.healer.fetching, p.healer.fails = r.manners.staging, r.manners.heals, r.manners.healFails
	if r.manners.tuneRank != nil {
		r.manners.tuneRank(p)
	}
	cfg := manager.Config{
		ReplicaID: r.name, Lighthouse: r.w.lighthouse, GroupRank: rank, GroupWorldSize: r.size, GroupStore: group,
		StepTimeout: r.w.o.stepTimeout, HealTimeout: r.w.o.healTimeout, MinReplicas: r.w.o.rules.MinReplicas,
		Backend: p.backend, Transport: p.healer, Network: p.host, OnEvent: func(e manager.Event) { r.w.book.event(p, e) },
		Log: r.w.log.With().Str("name", p.name).Logger(),
	}
	if r.manners.tune != nil {
		r.manners.tune(&cfg)
	}
	p.inPlace = cfg.HealInPlace
	var err error
	heard := cfg.OnEvent
	cfg.OnEvent = func(e manager.Event) {
		if _, stays := e.(manager.Stays); stays {
			p.stays.Add(1)
		}
		if heard != nil {
			heard(e)
		}
	}
	if p.m, err = manager.New(cfg); err != nil {
		r.w.t.Fatal(err)
	}
	if err := p.m.Register("model", func() checkpointState { return stateOf(p.params) }, nil); err != nil {
		r.w.t.Fatal(err)
	}
	p.turn = p.step
	if r.manners.trains != nil {
		p.turn = r.manners.trains(p)
	}
	r.w.mu.Lock()
	r.w.mu.procs = append(r.w.mu.procs, p)
	r.w.mu.Unlock()
	return p
}

func (p *proc) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ctx = failpoint.With(ctx, func(at failpoint.Point) { p.walksInto(ctx, at) })
	p.healer.donates = failpoint.From(ctx)
	p.cancel = cancel
	go func() {
		defer close(p.ran)
		_ = p.m.Run(ctx) // the loop hears what there is to say
	}()
	go func() {
		defer close(p.done)
		err := p.loop(ctx)
		p.mu.Lock()
		p.mu.err = err
		p.mu.Unlock()
		if ctx.Err() == nil && p.alive() {
			p.w.book.note(p.name, "process ends: %v", err)
			p.exit(err)
		}
	}()
}

// kill is SIGKILL of all ranks.
func (r *replica) kill() {
	r.w.book.fault(r.name, "killed")
	for _, p := range r.ranks {
		p.kill()
	}
	for _, p := range r.ranks {
		p.reap()
	}
	r.closeGroup()
}

func (r *replica) closeGroup() {
	if r.groups != nil {
		_ = r.groups.Close() // it has no error
		<-r.ended
		r.groups = nil
	}
}

// kill ends one process without a word to anybody.
func (p *proc) kill() {
	p.mu.Lock()
	p.mu.dead = true
	p.mu.Unlock()
	p.host.Mute()
	p.backend.Kill()
	p.healer.kill()
	p.host.Kill()
	p.cancel()
}

func (p *proc) reap() {
	<-p.ran
	<-p.done
}

// exit is the end of a process whose loop has ended.
func (p *proc) exit(err error) {
	if errors.Is(err, manager.ErrDrained) {
		_ = p.m.Close() // nil after Run
	} else if o := p.w.onExit; o != nil {
		o(p, err)
	}
	p.kill()
}

// stop ends one process orderly, if it runs.
func (p *proc) stop() {
	if p.alive() {
		p.mu.Lock()
		p.mu.dead = true
		p.mu.Unlock()
		_ = p.m.Close() // Run says the same
		p.cancel()
	}
	p.reap()
	p.r.closeGroup()
}

func (p *proc) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mu.dead
}

// atStep is the newest step that the trainer has made its own.
func (p *proc) atStep() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.at.Step
}

// first is when the rank committed its first step; 0: it has not.
func (p *proc) first() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.first
}

// over: the trainer's loop has ended.
func (p *proc) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *proc) doing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return fmt.Sprintf("ended: %v", p.mu.err)
	}
	if p.mu.hung {
		return "hung " + p.mu.stage.String()
	}
	return p.mu.stage.String()
}

// drain asks to leave.
func (p *proc) drain() {
	p.w.book.note(p.name, "drains")
	p.mu.Lock()
	p.mu.leaves = true
	p.mu.Unlock()
	p.m.Drain()
}

// hang stops the trainer for ever; its process lives.
func (p *proc) hang(ctx context.Context) {
	p.w.book.fault(p.name, "trainer hangs")
	p.mu.Lock()
	p.mu.hung = true
	p.mu.Unlock()
	<-ctx.Done()
}

func (p *proc) pass(ctx context.Context, s stage) {
	p.mu.Lock()
	p.mu.stage = s
	p.mu.Unlock()
	if o := p.r.orders.Load(); o != nil && o.at == s {
		o.do(ctx, p)
	}
	if p.r.manners.at != nil {
		p.r.manners.at(ctx, p, s)
	}
}

func (p *proc) loop(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.turn(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errEnded):
			return err // training cannot go on
		default:
			p.w.book.note(p.name, "goes on after: %v", err)
			if err := wait(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// errEnded is the cause of a ctx that a world ends on purpose.
var errEnded = errors.New("the caller's ctx was ended")

func (p *proc) ctxFor(ctx context.Context, c call) (context.Context, context.CancelFunc) {
	if p.r.manners.ctxFor == nil {
		return ctx, func() {}
	}
	return p.r.manners.ctxFor(ctx, p, c)
}

// step is one turn of the loop that users write.
func (p *proc) step(ctx context.Context) error {
	p.pass(ctx, stagePause)
	if err := wait(ctx, p.r.manners.pause); err != nil {
		return err
	}
	sctx, cancel := p.ctxFor(ctx, callStart)
	var wishes manager.StartOptions
	if p.r.manners.start != nil {
		wishes = p.r.manners.start(p)
	}
	err := p.m.StartQuorumWith(sctx, wishes)
	cancel()
	if err != nil || !p.m.IsHealing() { // who heals beside the step holds no state
		p.atRest(false)
	}
	if err != nil {
		return err
	}
	p.pass(ctx, stageStarted)
	if err := wait(ctx, p.r.manners.forward); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	grads := p.gradient(p.m.Step())
	p.reduce(ctx, grads)
	p.pass(ctx, stageBallot)
	cctx, cancel := p.ctxFor(ctx, callCommit)
	ok, err := p.m.ShouldCommit(cctx)
	cancel()
	if ok {
		failpoint.At(ctx, failpoint.ApplyBefore)
		p.w.book.commits(ctx, p, grads)
		failpoint.At(ctx, failpoint.ApplyAfter)
	}
	p.atRest(ok)
	p.pass(ctx, stageEnded)
	return err
}

// reduce makes the collectives of a step. What goes wrong is reported to the manager.
func (p *proc) reduce(ctx context.Context, grads []float32) {
	rctx, cancel := p.ctxFor(ctx, callReduce)
	defer cancel()
	group, first, second := p.m.Group(), grads[:slots], grads[slots:]
	if p.r.manners.odd {
		second = second[1:]
	}
	if p.r.manners.skips {
		second = nil
	}
	if p.r.manners.async {
		group.AllReduceAsync(tensor.Of(first), tensor.Avg)
		p.pass(ctx, stageBetween)
		if second != nil {
			group.AllReduceAsync(tensor.Of(second), tensor.Avg)
		}
		return
	}
	_ = group.AllReduce(rctx, tensor.Of(first), tensor.Avg)
	p.pass(ctx, stageBetween)
	if second != nil {
		_ = group.AllReduce(rctx, tensor.Of(second), tensor.Avg)
	}
}

// gradient is what this rank computes for a step: its own slot, and numbers that
// tell who computed them, for which step, from which parameters.
func (p *proc) gradient(step int64) []float32 {
	g := make([]float32, slots+modelSize)
	g[p.r.index] = 1
	for i := range p.params {
		g[slots+i] = own(p.r.index, p.rank, step, i) + p.params[i]/64
	}
	return g
}

// own is the part of a gradient that depends on who computes it.
func own(index, rank int, step int64, i int) float32 {
	return float32((int64(index+1)*31 + int64(rank)*17 + step*7 + int64(i)*3) % 97)
}

// at is where the trainer is.
func (p *proc) at() stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.stage
}
