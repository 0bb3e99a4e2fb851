package training

import (
	"context"
	"crypto/sha256"
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
	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for steps and timeouts rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// patience bounds every wait; reaching it is a failure.
const patience = 40 * time.Second

func logger(name string) zerolog.Logger {
	if os.Getenv("SKERRY_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	out := zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "05.000", NoColor: true}
	return zerolog.New(out).With().Timestamp().Str("name", name).Logger()
}

// beacon is a lighthouse that can be stopped and started again.
type beacon struct {
	t      *testing.T
	cfg    lighthouse.Config
	addr   string
	cancel context.CancelFunc
	done   chan error
}

func startLighthouse(t *testing.T) *beacon {
	t.Helper()
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.DataDir, cfg.Log = "127.0.0.1:0", t.TempDir(), logger("lighthouse")
	b := &beacon{t: t, cfg: cfg}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *beacon) start() {
	b.t.Helper()
	s, err := lighthouse.New(b.cfg)
	if err != nil {
		b.t.Fatalf("lighthouse: %v", err)
	}
	b.addr = s.Addr().String()
	b.cfg.Listen = b.addr // again, if it is started again
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan error, 1)
	go func() { b.done <- s.Run(ctx) }()
}

func (b *beacon) stop() {
	if b.cancel == nil {
		return
	}
	b.cancel()
	if err := <-b.done; err != nil && !errors.Is(err, context.Canceled) {
		b.t.Errorf("lighthouse: %v", err)
	}
	b.cancel = nil
}

// trainer is a replica with a little model over a TCP group.
type trainer struct {
	t      *testing.T
	name   string
	m      *manager.Manager
	params []float32
	cancel context.CancelFunc
	ran    chan error
	done   chan error
	verbs  func(ctx context.Context, tr *trainer) error // before the gradients; nil: none

	mu struct {
		sync.Mutex

		hashes map[int64][32]byte
	}
}

const modelSize = 10_000

// patientBeats keeps a busy machine from looking like a dead peer: no test here
// lets a link fall silent.
const patientBeats = 20 * time.Second

func start(t *testing.T, b *beacon, name string, tune func(*manager.Config)) *trainer {
	t.Helper()
	return startWith(t, b, name, tune, nil)
}

// startWith is start for a trainer that calls verbs in each step, whose errors end it.
func startWith(t *testing.T, b *beacon, name string, tune func(*manager.Config), verbs func(context.Context, *trainer) error) *trainer {
	t.Helper()
	tr := &trainer{t: t, name: name, params: make([]float32, modelSize), ran: make(chan error, 1), done: make(chan error, 1), verbs: verbs}
	tr.mu.hashes = make(map[int64][32]byte)
	for i := range tr.params {
		tr.params[i] = float32(len(name)*i) + float32(name[0])
	}
	cfg := manager.Config{
		ReplicaID: name, Lighthouse: []string{b.addr}, StepTimeout: 20 * time.Second, HealTimeout: 20 * time.Second,
		Backend: tcp.New(tcp.Options{BeatTimeout: patientBeats, Logger: logger(name)}), Log: logger(name),
	}
	if tune != nil {
		tune(&cfg)
	}
	m, err := manager.New(cfg)
	if err != nil {
		t.Fatalf("manager %s: %v", name, err)
	}
	tr.m = m
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(tr.params)}}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tr.cancel = cancel
	go func() { tr.ran <- m.Run(ctx) }()
	go func() { tr.done <- tr.loop(ctx) }()
	t.Cleanup(func() { tr.stop() })
	return tr
}

// stop ends the trainer and gives its loop's error.
func (tr *trainer) stop() error {
	if tr.cancel == nil {
		return nil
	}
	_ = tr.m.Close()
	tr.cancel()
	tr.cancel = nil
	<-tr.ran
	return <-tr.done
}

func (tr *trainer) loop(ctx context.Context) error {
	grads := make([]float32, modelSize)
	for {
		if err := tr.m.StartQuorum(ctx); err != nil {
			return err
		}
		select { // the forward pass
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if tr.verbs != nil {
			if err := tr.verbs(ctx, tr); err != nil {
				return err
			}
		}
		gradient(tr.name, tr.m.Step(), grads)
		half := tr.m.Group().AllReduceAsync(tensor.Of(grads[:modelSize/2]), tensor.Avg)
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads[modelSize/2:]), tensor.Avg) // reported to the manager
		_ = half.Wait(ctx)
		ok, err := tr.m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for i := range tr.params {
			tr.params[i] -= 0.1 * grads[i]
		}
		tr.mu.Lock()
		tr.mu.hashes[tr.m.Step()] = sha256.Sum256(tensor.Of(tr.params).Bytes())
		tr.mu.Unlock()
	}
}

func gradient(name string, step int64, out []float32) {
	h := fnv.New32()
	fmt.Fprintf(h, "%s/%d", name, step)
	x := h.Sum32()
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = float32(x>>8)/(1<<24) - 0.5
	}
}

// reach waits until every trainer has made n steps more.
func reach(t *testing.T, n int64, trainers ...*trainer) {
	t.Helper()
	for _, tr := range trainers {
		to := tr.m.Step() + n
		testkit.Eventually(t, fmt.Sprintf("%s at step %d", tr.name, to), func() bool {
			select {
			case err := <-tr.done:
				tr.done <- err
				t.Fatalf("%s ended: %v", tr.name, err)
			default:
			}
			return tr.m.Step() >= to
		})
	}
}

// agree checks that all have the same bytes at every step that they share.
func agree(t *testing.T, trainers ...*trainer) {
	t.Helper()
	all := make(map[int64][32]byte)
	for _, tr := range trainers {
		tr.mu.Lock()
		for step, hash := range tr.mu.hashes {
			if other, ok := all[step]; ok && other != hash {
				t.Errorf("%s differs at step %d", tr.name, step)
			}
			all[step] = hash
		}
		tr.mu.Unlock()
	}
	if len(all) == 0 {
		t.Error("nothing was committed")
	}
}
