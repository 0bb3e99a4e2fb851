package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// WorkerHeal is the name under which main registers HealWorker.
const WorkerHeal = "bench-heal"

// What changes with a step.
const (
	changeNone = "little"
	changeRows = "1%"
	changeAll  = "all"
)

// healArgs go to a replica's process.
type healArgs struct {
	Lighthouse string `json:"lighthouse"`
	Bytes      int64  `json:"bytes"` // of the state
	Change     string `json:"change"`
	StepMs     int64  `json:"step_ms"`     // of computation on something else than this processor
	DieSending int64  `json:"die_sending"` // the part of a state in the middle of which it dies, from 1 on; 0: none
}

// healLine is what a replica prints: a commit, a sum of its state, a copy, a heal.
type healLine struct {
	Commit       int64   `json:"commit,omitempty"` // the step; of a sum too
	At           int64   `json:"at,omitempty"`     // on the host's monotonic clock
	Participants int     `json:"participants,omitempty"`
	Discards     uint64  `json:"discards,omitempty"` // so far
	Sum          uint32  `json:"sum,omitempty"`
	Bytes        int64   `json:"bytes,omitempty"`
	CopyMs       float64 `json:"copy_ms,omitempty"`
	Healed       bool    `json:"healed,omitempty"`
}

// healTrainer is one replica: a small model that is reduced, and a large state
// beside it.
type healTrainer struct {
	args  healArgs
	grads []float32
	state []float32
	sent  atomic.Int64 // parts of its state
	sumAt atomic.Int64 // the step from which on to print a sum, once; 0: none is wanted

	out struct {
		sync.Mutex

		*json.Encoder
	}
}

const healModel = 256 << 10 // float32s

// HealWorker trains until it is killed.
func HealWorker(ctx context.Context, w spawn.Worker) error {
	t := &healTrainer{}
	if err := json.Unmarshal(w.Args, &t.args); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	t.out.Encoder = json.NewEncoder(os.Stdout)
	t.grads, t.state = make([]float32, healModel), make([]float32, t.args.Bytes/4)
	for i := range t.state {
		t.state[i] = -float32(w.Rank + 1) // no byte of a joiner's is right
	}
	log := zerolog.Nop()
	if os.Getenv("SKERRY_BENCH_LOG") != "" {
		log = logline.JSON(os.Stderr).With().Int("replica", w.Rank).Logger()
	}
	if t.args.DieSending > 0 {
		ctx = failpoint.With(ctx, t.sends)
	}
	go t.listen() // ends with the process
	return withManager(ctx, manager.Config{
		ReplicaID: fmt.Sprintf("heal-%d", w.Rank), Lighthouse: []string{t.args.Lighthouse},
		Backend: tcp.New(tcp.Options{}), OnEvent: t.event, Log: log, HealInPlace: strings.HasSuffix(t.args.Change, inPlace),
	}, t.state, t.train)
}

// withManager runs a manager of a replica with that state until f returns.
func withManager(ctx context.Context, c manager.Config, state []float32, f func(context.Context, *manager.Manager) error) error {
	m, err := manager.New(c)
	if err != nil {
		return err
	}
	save := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"state": tensor.Of(state)}}
	}
	if err := m.Register("model", save, nil); err != nil {
		return errors.Join(err, m.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error {
		defer m.Close() //nolint:errcheck // its error is Run's
		return f(ctx, m)
	})
	return g.Wait()
}

// listen reads the steps after which a sum is wanted.
func (t *healTrainer) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var at int64
		if json.Unmarshal(lines.Bytes(), &at) == nil {
			t.sumAt.Store(at)
		}
	}
}

func (t *healTrainer) say(l healLine) error {
	t.out.Lock()
	defer t.out.Unlock()
	return t.out.Encode(l)
}

func (t *healTrainer) event(e manager.Event) {
	switch e := e.(type) {
	case manager.StateCopied:
		_ = t.say(healLine{Bytes: e.Bytes, At: eventline.Now(), CopyMs: max(e.Took.Seconds()*1e3, 1e-3)}) // the driver is gone
	case manager.HealDone:
		if e.Err == nil {
			_ = t.say(healLine{Bytes: e.Bytes, Healed: true}) // the driver is gone
		}
	}
}

// sends counts the parts that are sent, and dies in the middle of one.
func (t *healTrainer) sends(p failpoint.Point) {
	if p == failpoint.SendDuring && t.sent.Add(1) == t.args.DieSending {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func (t *healTrainer) train(ctx context.Context, m *manager.Manager) error {
	for ctx.Err() == nil {
		if err := m.StartQuorum(ctx); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, time.Duration(t.args.StepMs)*time.Millisecond); err != nil { // what an accelerator would do
			return err
		}
		for i := range t.grads {
			t.grads[i] = float32(m.Step()%7) + 1
		}
		_ = m.Group().AllReduce(ctx, tensor.Of(t.grads), tensor.Avg) // reported to the manager
		ok, err := m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		if ok {
			if err := t.commit(m); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// commit is the optimizer's step, and prints it.
func (t *healTrainer) commit(m *manager.Manager) error {
	step := m.Step()
	t.apply(step)
	l := healLine{Commit: step, At: eventline.Now(), Participants: m.NumParticipants(), Discards: m.Stats().Discards}
	if err := t.say(l); err != nil {
		return err
	}
	if at := t.sumAt.Load(); at == 0 || step < at || !t.sumAt.CompareAndSwap(at, 0) {
		return nil
	}
	sum := crc32.Checksum(tensor.Of(t.state).Bytes(), crc32.MakeTable(crc32.Castagnoli))
	return t.say(healLine{Commit: step, Sum: sum | 1})
}

func (t *healTrainer) apply(step int64) {
	for i, g := range t.grads[:min(len(t.grads), len(t.state))] {
		t.state[i] += g
	}
	switch t.args.Change {
	case changeRows:
		n := len(t.state) / 100
		part := t.state[int(step%100)*n:][:n]
		for i := range part {
			part[i] += t.grads[i%len(t.grads)]
		}
	case changeAll, changeAll + inPlace:
		for i := range t.state {
			t.state[i] += t.grads[i&(healModel-1)]
		}
	}
}
