package durable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openDir opens a directory until the test ends.
func openDir(t testing.TB, cfg localdir.Config) *localdir.Store {
	t.Helper()
	d, err := localdir.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// progress is a rank's, as a test sets it.
type progress struct {
	at              quorum.Position
	participant     int
	replica         string
	batchesOfAStep  int64
	numParticipants int
}

func (p *progress) Position() quorum.Position { return p.at }
func (p *progress) BatchesCommitted() int64   { return p.at.Step * p.batchesOfAStep }
func (p *progress) ParticipantRank() int      { return p.participant }
func (p *progress) NumParticipants() int      { return p.numParticipants }
func (p *progress) ReplicaID() string         { return p.replica }

// model is a state that says of which step it is.
type model struct {
	w, v   []float32
	n      []int64
	on     []bool
	meta   map[string]string
	loaded map[string]string // what load was told; nil: it was not called
}

func newModel() *model {
	return &model{w: make([]float32, 1000), v: make([]float32, 300), n: make([]int64, 3), on: make([]bool, 5), meta: make(map[string]string)}
}

// learn makes it the model of a step, of one life of the run.
func (m *model) learn(step int64, life float32) {
	for i := range m.w {
		m.w[i] = float32(step)*1000 + float32(i) + life/16
	}
	for i := range m.v {
		m.v[i] = -m.w[i]
	}
	m.n[0], m.on[1] = step, step%2 == 1
	m.meta["step"], m.meta["text"] = strconv.FormatInt(step, 10), "<a> \u2028 &\"quoted\""
}

func (m *model) save() checkpoint.State {
	return checkpoint.State{
		Tensors: map[string]tensor.Tensor{"w": tensor.Of(m.w), "v": tensor.Of(m.v), "n": tensor.Of(m.n), "on": tensor.Of(m.on)},
		Meta:    m.meta,
	}
}

func (m *model) load(s checkpoint.State) error {
	m.loaded = s.Meta
	return nil
}

// equal: the same tensors, bit for bit.
func (m *model) equal(o *model) bool {
	return slices.Equal(m.w, o.w) && slices.Equal(m.v, o.v) && slices.Equal(m.n, o.n) && slices.Equal(m.on, o.on)
}

// rank is one rank that trains.
type rank struct {
	t      testing.TB
	p      *progress
	m      *model
	c      *durable.Checkpointer
	events *events
	stop   func()
}

// events collects what a Checkpointer tells. Safe for concurrent use.
type events struct {
	mu sync.Mutex

	all []durable.Event
}

func (e *events) add(event durable.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// of are the events of one type.
func of[T durable.Event](e *events) []T {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []T
	for _, event := range e.all {
		if one, ok := event.(T); ok {
			out = append(out, one)
		}
	}
	return out
}

// lives counts the processes of all tests: each has a replica id of its own.
func replicaID(name string, life int) string { return fmt.Sprintf("%s:%08d", name, life) }

// newRank makes a rank; run lets it write.
func newRank(t testing.TB, replica string, cfg durable.Config) *rank {
	t.Helper()
	r := &rank{t: t, m: newModel(), events: &events{}}
	r.p = &progress{replica: replica, batchesOfAStep: 2, numParticipants: 2}
	cfg.OnEvent = r.events.add
	var err error
	if r.c, err = durable.New(cfg); err == nil {
		err = r.c.Register("model", r.m.save, r.m.load)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts Run, which ends with the test, or with stop.
func (r *rank) run() *rank {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.c.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(r.stop)
	return r
}

// step commits a step in quorum 7, and says what AfterStep said.
func (r *rank) step(step int64) error {
	r.m.learn(step, 0)
	r.p.at = quorum.Position{Cluster: "c", Step: step, QuorumID: 7}
	return r.c.AfterStep(context.Background(), r.p)
}

// saved commits a step and waits until it is written.
func (r *rank) saved(step int64) error {
	if err := r.step(step); err != nil {
		return err
	}
	return r.c.Flush(context.Background())
}

// must fails the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files of a directory, and what they hold.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		short, _ := filepath.Rel(dir, name)
		all[short] = string(b)
		return err
	}))
	return all
}

// restores wants that a new process reads a step from dir, and gives what it found.
func restores(t testing.TB, s durable.Store, step int64) *durable.Found {
	t.Helper()
	r := newRank(t, replicaID("reader", 1), durable.Config{Store: s})
	found, err := r.c.Restore(t.Context())
	if err != nil {
		t.Errorf("restore: %v, want step %d", err, step)
		return nil
	}
	want := newModel()
	want.learn(step, 0)
	if found.Position.Step != step || !r.m.equal(want) || r.m.loaded["step"] != strconv.FormatInt(step, 10) {
		t.Errorf("restored %v with %v and %v…, want step %d", found, r.m.loaded, r.m.w[:2], step)
	}
	return found
}

var errNoSpace = errors.New("no space")

// unreadable is a store in which some files cannot be read.
type unreadable struct {
	durable.Store
	part string
	err  error
}

// Get implements durable.Store.
func (u *unreadable) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := u.Store.Get(ctx, name)
	if err != nil || !strings.Contains(name, u.part) {
		return r, err
	}
	return broken{r, u.err}, nil
}

// broken gives a few bytes, and then an error.
type broken struct {
	io.ReadCloser
	err error
}

// Read implements io.Reader.
func (b broken) Read(p []byte) (int, error) {
	n, _ := b.ReadCloser.Read(p[:min(len(p), 4)]) // the error is ours
	return n, b.err
}
