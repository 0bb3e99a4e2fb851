package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests; reaching it is a failure. It is shorter than the
// timeouts that a test is to do without (quorum's StuckAfter is a minute).
const patience = 30 * time.Second

// limited is a ctx that ends long after the test should have.
func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// world is a lighthouse and trainers, in one process: in a synctest bubble, over a
// network in memory. That of a newKernelWorld is in real time, over the kernel's sockets.
type world struct {
	t    testing.TB
	lh   *fakeLighthouse
	net  *pgtest.Memory   // of the data plane
	wire *nettest.Network // of everything else; nil: the kernel's
	logs zerolog.Logger
	// tune, if not nil, changes each manager's configuration.
	tune func(*Config)

	// atFailure is how all trainers stood when a wait ended in vain.
	atFailure []string

	mu struct {
		sync.Mutex

		trainers []*trainer
	}
}

// states says for people how all trainers stand.
func (w *world) states() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, tr := range w.mu.trainers {
		out = append(out, tr.state())
	}
	return out
}

func (tr *trainer) state() string {
	m := tr.m
	m.mu.Lock()
	defer m.mu.Unlock()
	s := fmt.Sprintf("%s: %+v, attempt %+v, phase %d, final %v", tr.name, m.mu.rank, m.mu.attempt, m.mu.phase, m.mu.final)
	if r := m.mu.request; r != nil {
		s += fmt.Sprintf(", request %+v", *r)
	}
	if m.replica != nil {
		s += fmt.Sprintf(", %v", m.replica)
	}
	return s
}

func newWorld(t testing.TB) *world {
	return newWorldWith(t, testRules())
}

func newWorldWith(t testing.TB, rules quorum.Config) *world {
	t.Helper()
	return newWorldOver(t, nettest.New(), rules)
}

// newKernelWorld is for tests of what dials by itself: pg/tcp, and pg.ProbeStore.
func newKernelWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOver(t, nil, testRules())
}

func newWorldOver(t testing.TB, wire *nettest.Network, rules quorum.Config) *world {
	t.Helper()
	w := &world{t: t, net: pgtest.NewMemory(), wire: wire, logs: zerolog.Nop()}
	w.lh = newFakeLighthouse(t, w.host("lighthouse"), rules)
	if os.Getenv("SKERRY_TEST_LOG") != "" {
		w.logs = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "05.000"}).With().Timestamp().Logger()
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, state := range w.atFailure {
				t.Log(state)
			}
			for _, line := range w.lh.transcript() {
				t.Log(line)
			}
		}
	})
	return w
}

// host is a place in the world's network; nil: that of this process, in the kernel's.
func (w *world) host(name string) *nettest.Host {
	if w.wire == nil {
		return nil
	}
	return w.wire.Host(name)
}

// trainer is one replica of one rank, with a little model.
type trainer struct {
	w       *world
	name    string
	m       *Manager
	host    *nettest.Host
	backend pg.Backend
	params  []float32
	cancel  context.CancelFunc
	ran     chan struct{} // closed when Run has returned
	done    chan struct{} // closed when the loop has
	err     error         // of the loop

	// before is called by the loop in each attempt after StartQuorum, ops
	// before ShouldCommit. nil: nothing.
	before func(ctx context.Context, step int64) error
	ops    func(ctx context.Context, grads []float32) error

	// optimizer is told of the gradients after each commit, before they are applied.
	// nil: nothing.
	optimizer func(grads []float32)

	// between is called before each StartQuorum. startCtx and commitCtx make the
	// ctx of StartQuorum and ShouldCommit; when it ends the loop goes on. nil:
	// nothing, and the loop's ctx.
	between             func(ctx context.Context) error
	startCtx, commitCtx func(ctx context.Context) (context.Context, context.CancelFunc)

	mu struct {
		sync.Mutex

		until  int64 // the loop stops at this step; rises only
		wake   chan struct{}
		events []Event
		paused bool
		hashes map[quorum.Position]string // after each commit
		last   int64                      // the newest step committed
	}
}

const modelSize = 257

// forwardTime is how long a forward pass takes. The longer, the fewer steps there are to
// compute in a time that a test waits.
const forwardTime = 5 * time.Millisecond

// trainer makes a replica that runs until it is told to stop. It starts
// nothing.
func (w *world) trainer(name string) *trainer {
	w.t.Helper()
	mem := w.net.Backend()
	return w.trainerOn(name, mem, mem)
}

func (w *world) trainerOn(name string, backend, outer pg.Backend) *trainer {
	w.t.Helper()
	tr := &trainer{w: w, name: name, host: w.host(name), backend: backend, params: make([]float32, modelSize)}
	seed := fnv.New32()
	seed.Write([]byte(name))
	for i := range tr.params {
		tr.params[i] = float32(seed.Sum32()%1000) + float32(i) // different everywhere: init sync must mend it
	}
	tr.mu.wake = make(chan struct{})
	tr.mu.hashes = make(map[quorum.Position]string)
	cfg := Config{
		ReplicaID: name, Lighthouse: []string{w.lh.addr}, StepTimeout: 10 * time.Second, HealTimeout: 20 * time.Second,
		Backend: outer, Log: w.logs.With().Str("name", name).Logger(), OnEvent: tr.note,
	}
	if tr.host != nil {
		cfg.Network = tr.host
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		w.t.Fatalf("New(%s): %v", name, err)
	}
	tr.m = m
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(tr.params)}}
	}, nil)
	if err != nil {
		w.t.Fatalf("Register: %v", err)
	}
	w.mu.Lock()
	w.mu.trainers = append(w.mu.trainers, tr)
	w.mu.Unlock()
	return tr
}

// start runs the trainer's manager and loop.
func (tr *trainer) start(until int64) *trainer {
	ctx, cancel := context.WithCancel(context.Background())
	tr.cancel = cancel
	tr.ran, tr.done = make(chan struct{}), make(chan struct{})
	tr.mu.until = until
	go func() {
		defer close(tr.ran)
		_ = tr.m.Run(ctx)
	}()
	go func() {
		defer close(tr.done)
		tr.err = tr.loop(ctx)
	}()
	tr.w.t.Cleanup(tr.stop)
	return tr
}

// stop ends the trainer orderly.
func (tr *trainer) stop() {
	_ = tr.m.Close()
	tr.cancel()
	<-tr.ran
	<-tr.done
}

// kill ends the trainer the way SIGKILL does: no word to anybody. Its manager sees
// nothing of it before its ctx has ended: else it takes part in what its own death
// brings about, and joins.
func (tr *trainer) kill() {
	tr.m.mu.Lock()
	if k, ok := tr.backend.(interface{ Kill() }); ok {
		k.Kill()
	}
	tr.cancel()
	tr.m.mu.Unlock()
	<-tr.ran
	<-tr.done
}

func (tr *trainer) note(e Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.mu.events = append(tr.mu.events, e)
}

// goOn lets the loop run until step.
func (tr *trainer) goOn(step int64) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.mu.until = step
	close(tr.mu.wake)
	tr.mu.wake = make(chan struct{})
}

func (tr *trainer) loop(ctx context.Context) error {
	grads := make([]float32, modelSize)
	for {
		tr.mu.Lock()
		until, wake := tr.mu.until, tr.mu.wake
		tr.mu.Unlock()
		if tr.m.Step() >= until {
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := tr.attempt(ctx, grads); err != nil {
			return err
		}
	}
}

// attempt is one turn of the loop that users write.
func (tr *trainer) attempt(ctx context.Context, grads []float32) error {
	if tr.between != nil {
		if err := tr.between(ctx); err != nil {
			return err
		}
	}
	if started, err := tr.startQuorum(ctx); !started {
		return err
	}
	if tr.before != nil {
		if err := tr.before(ctx, tr.m.Step()); err != nil {
			return err
		}
	}
	select { // the forward pass
	case <-time.After(forwardTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	gradient(tr.name, tr.m.Step(), grads)
	if tr.ops != nil {
		if err := tr.ops(ctx, grads); err != nil {
			return err
		}
	} else {
		half := len(grads) / 2
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads[:half]), tensor.Avg) // reported to the manager
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads[half:]), tensor.Avg)
	}
	ok, err := tr.shouldCommit(ctx)
	if ok {
		tr.apply(grads)
	}
	return err
}

// startQuorum begins a step; started is false if its own ctx ended first.
func (tr *trainer) startQuorum(ctx context.Context) (started bool, err error) {
	own, cancel := ctx, context.CancelFunc(func() {})
	if tr.startCtx != nil {
		own, cancel = tr.startCtx(ctx)
	}
	defer cancel()
	err = tr.m.StartQuorum(own)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// shouldCommit ends a step, and checks that what it returns is what it did.
func (tr *trainer) shouldCommit(ctx context.Context) (bool, error) {
	own, cancel := ctx, context.CancelFunc(func() {})
	if tr.commitCtx != nil {
		own, cancel = tr.commitCtx(ctx)
	}
	defer cancel()
	before := tr.m.Stats().Commits
	ok, err := tr.m.ShouldCommit(own)
	if counted := tr.m.Stats().Commits > before; counted != ok {
		tr.w.t.Errorf("%s: ShouldCommit = %t, %v, and a step was counted: %t", tr.name, ok, err, counted)
	}
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return ok, err
}

// apply is the optimizer's step.
func (tr *trainer) apply(grads []float32) {
	if tr.optimizer != nil {
		tr.optimizer(grads)
	}
	for i := range tr.params {
		tr.params[i] -= 0.1 * grads[i]
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	at := tr.m.Position()
	if old, ok := tr.mu.hashes[at]; ok && old != hashOf(tr.params) {
		tr.w.t.Errorf("%s: two states at %+v", tr.name, at)
	}
	tr.mu.hashes[at], tr.mu.last = hashOf(tr.params), at.Step
}

// gradient is what a replica computes for a step: different for each.
func gradient(name string, step int64, out []float32) {
	h := fnv.New32()
	fmt.Fprintf(h, "%s/%d", name, step)
	x := h.Sum32()
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = float32(x>>8)/(1<<24) - 0.5
	}
}

func hashOf(params []float32) string {
	sum := sha256.Sum256(tensor.Of(params).Bytes())
	return hex.EncodeToString(sum[:8])
}

// eventually waits for ok with the patience of these tests.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.EventuallyWithin(t, patience, what, ok)
}

// eventually notes also how all trainers stand if the wait ends in vain.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	met := false
	defer func() {
		if !met {
			w.atFailure = w.states()
		}
	}()
	eventually(w.t, what, ok)
	met = true
}

// reaches waits until all trainers have committed step.
func (w *world) reaches(step int64, trainers ...*trainer) {
	w.t.Helper()
	for _, tr := range trainers {
		w.eventually(fmt.Sprintf("%s at step %d, is at %d", tr.name, step, tr.m.Step()), func() bool {
			select {
			case <-tr.done:
				w.t.Fatalf("%s ended at step %d: %v", tr.name, tr.m.Step(), tr.err)
			default:
			}
			tr.mu.Lock()
			defer tr.mu.Unlock()
			return tr.mu.last >= step
		})
	}
}

// agree checks that at every position that two trainers have had, their
// parameters were the same, bit for bit (C1).
func (w *world) agree(trainers ...*trainer) {
	w.t.Helper()
	all := make(map[quorum.Position]string)
	for _, tr := range trainers {
		tr.mu.Lock()
		for at, hash := range tr.mu.hashes {
			if other, ok := all[at]; ok && other != hash {
				w.t.Errorf("%+v: %s has %s, another %s", at, tr.name, hash, other)
			}
			all[at] = hash
		}
		tr.mu.Unlock()
	}
	if len(all) == 0 {
		w.t.Errorf("nobody committed anything")
	}
}

// ended waits for the loop's end and checks its error.
func (tr *trainer) ended(want error) {
	tr.w.t.Helper()
	select {
	case <-tr.done:
	case <-time.After(patience):
		tr.w.t.Fatalf("%s does not end", tr.name)
	}
	if !errors.Is(tr.err, want) {
		tr.w.t.Errorf("%s ended with %v, want %v", tr.name, tr.err, want)
	}
}

// asyncOps averages the gradients without waiting: ShouldCommit does.
func (tr *trainer) asyncOps(_ context.Context, grads []float32) error {
	tr.m.Group().AllReduceAsync(tensor.Of(grads), tensor.Avg)
	return nil
}
