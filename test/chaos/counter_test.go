package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

const counterWorker = "chaos-counter"

// counterSize is the number of a counter's parameters.
const counterSize = 1 << 14

// counterArgs is what the test tells a counter on top.
type counterArgs struct {
	Index       int // of its replica
	Rank, Ranks int // Ranks 0: one
	GroupStore  string

	Fault   string // see the constants; empty: none
	FaultAt int64  // from this step on
	Delay   time.Duration
}

// What a counter does wrong, for ever.
const (
	hangsInPass    = "hangs in the forward pass"
	hangsBetween   = "hangs between two steps"
	wrongSize      = "reduces a tensor of another size"
	missing        = "calls no collective"
	otherShape     = "has a state of another shape"
	failsToHeal    = "cannot heal"
	healsSlowly    = "heals slowly"
	flipped        = "a bit of its state has flipped"
	comesLate      = "comes late to StartQuorum"
	neverEndsFault = time.Hour
)

// counter is one rank of a replica whose gradients are whole numbers: whatever
// order they are added up in, the sum has the same bytes. So whoever knows which
// replicas' parts are in each step can compute the parameters again. That is
// reduced, too: each replica adds a one in its own place.
type counter struct {
	a      workerArgs
	m      *manager.Manager
	out    *reporter
	params []int64
	grads  []int64
	counts []int64
	told   bool
	armed  atomic.Bool // it may die where it is told to
	flip   atomic.Bool // a bit of its state is to flip
}

// dying is how a counter comes to die where it is told to; an older tree has no way.
var dying = func(ctx context.Context, _ workerArgs, _ *atomic.Bool) context.Context { return ctx }

// flipWhenTold waits for SIGUSR1.
func (d *counter) flipWhenTold() (stop func()) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	go func() {
		for range told {
			d.flip.Store(true)
		}
	}()
	return func() {
		signal.Stop(told)
		close(told)
	}
}

// part is what a replica adds to a parameter in a step.
func part(replica int, step int64, i int) int64 {
	return int64(replica+1)*1_000_003*step + int64(i)*int64(replica+7)
}

func hashOf(params []int64) string {
	sum := sha256.Sum256(tensor.Of(params).Bytes())
	return fmt.Sprintf("%x", sum[:8])
}

// count is the process of a counter.
func count(ctx context.Context, w spawn.Worker) error {
	var a workerArgs
	if err := json.Unmarshal(w.Args, &a); err != nil {
		return err
	}
	d := &counter{
		a: a, out: &reporter{}, params: make([]int64, counterSize), grads: make([]int64, counterSize), counts: make([]int64, a.Replicas),
	}
	guarded, err := a.guard()
	if err != nil {
		return err
	}
	backend, err := a.backend()
	if err != nil {
		return err
	}
	ctx = dying(ctx, a, &d.armed)
	stop := d.flipWhenTold()
	defer stop()
	cfg := manager.Config{
		ReplicaID:   fmt.Sprintf("replica-%d", a.Index),
		Lighthouse:  strings.Split(a.Lighthouse, ","),
		GroupRank:   a.Rank,
		GroupStore:  a.GroupStore,
		MinReplicas: max(a.MinReplicas, 1),
		StepTimeout: a.StepTimeout,
		HealTimeout: time.Minute,
		Backend:     backend,
		Guard:       guarded,
		OnEvent:     func(e manager.Event) { tell(d.out, e) },
		Log:         a.log(),
	}
	if a.Ranks > 1 {
		cfg.GroupWorldSize = a.Ranks
	}
	if a.Fault == failsToHeal || a.Fault == healsSlowly {
		inner, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		cfg.Transport = &faultyTransport{HTTP: inner, a: a, out: d.out}
	}
	m, err := manager.New(cfg)
	if err != nil {
		return err
	}
	d.m = m
	if err := m.Register("counter", d.state, nil); err != nil {
		return errors.Join(err, m.Close())
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(gctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		for gctx.Err() == nil {
			if err := d.step(gctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err := g.Wait(); ctx.Err() == nil && !errors.Is(err, manager.ErrDrained) {
		return err
	}
	return nil
}

func (d *counter) state() checkpoint.State {
	params := d.params
	if d.has(otherShape) {
		params = params[1:]
	}
	return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
}

// has says whether this counter does something wrong now; it tells the first time.
func (d *counter) has(fault string) bool {
	if d.a.Fault != fault || d.a.FaultAt > 0 && d.m.Step() < d.a.FaultAt {
		return false
	}
	if !d.told {
		d.told = true
		d.out.say(report{Kind: faulty, Text: fault})
	}
	return true
}

// step is one turn of the training loop.
func (d *counter) step(ctx context.Context) error {
	if d.flip.CompareAndSwap(true, false) {
		d.params[len(d.params)/2] ^= 1 << 17
		d.out.say(report{Kind: faulty, Text: flipped})
	}
	if d.has(hangsBetween) {
		pause(ctx, neverEndsFault)
	}
	if d.has(comesLate) {
		pause(ctx, d.a.Delay)
	}
	if err := d.m.StartQuorum(ctx); err != nil {
		return err
	}
	pause(ctx, d.a.StepTime) // the forward pass
	if d.has(hangsInPass) {
		pause(ctx, neverEndsFault)
	}
	step := d.m.Step() + 1
	for i := range d.grads {
		d.grads[i] = part(d.a.Index, step, i)
	}
	clear(d.counts)
	d.counts[d.a.Index] = 1
	grads := d.grads
	if d.has(wrongSize) {
		grads = grads[1:]
	}
	if !d.has(missing) { // errors go to the manager
		_ = d.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Sum)
		_ = d.m.Group().AllReduce(ctx, tensor.Of(d.counts), tensor.Sum)
	}
	divisor := d.m.Group().Size()
	ok, err := d.m.ShouldCommit(ctx)
	if err != nil || !ok {
		return err
	}
	for i := range d.params {
		d.params[i] += d.grads[i]
	}
	at := d.m.Position()
	d.armed.Store(at.Step >= d.a.DieFrom)
	d.out.say(report{
		Kind: committed, Step: at.Step, Quorum: at.QuorumID, Hash: hashOf(d.params), Counts: d.counts, Divisor: divisor,
	})
	return nil
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// faultyTransport cannot fetch a state, or takes its time for the first one.
type faultyTransport struct {
	*checkpoint.HTTP

	a    workerArgs
	out  *reporter
	done bool // the slow one
}

var errNoHeal = errors.New("chaos: no state comes")

// Fetch implements checkpoint.Transport.
func (f *faultyTransport) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	if f.a.Fault == failsToHeal {
		f.out.say(report{Kind: faulty, Text: failsToHeal})
		return nil, errNoHeal
	}
	if !f.done {
		f.out.say(report{Kind: faulty, Text: healsSlowly})
		pause(ctx, f.a.Delay)
		f.done = true
	}
	return f.HTTP.Fetch(ctx, v, donors, into)
}
