package links

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

const (
	trainerName    = "links-trainer"
	lighthouseName = "links-lighthouse"
)

// place says where a worker lives.
type place struct {
	Name       string
	Address    string // its host's
	Lighthouse string
	Log        bool

	BeatTimeout time.Duration // 0: the default
}

func (p *place) log() zerolog.Logger {
	if !p.Log {
		return zerolog.Nop()
	}
	out := zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "05.000", NoColor: true}
	return zerolog.New(out).With().Timestamp().Str("name", p.Name).Logger()
}

// standing is what a trainer says when it is asked how it stands.
type standing struct {
	Step    int64
	Quorum  int64
	Members int
	Gap     time.Duration // the longest between two commits since it was told to begin anew; the last one may last
	Err     string
}

// train is a replica that trains until it is killed, and says how it stands for
// each line that it reads.
func train(ctx context.Context, w spawn.Worker) error {
	var p place
	if err := json.Unmarshal(w.Args, &p); err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		ReplicaID: p.Name, Lighthouse: []string{p.Lighthouse}, Listen: net.JoinHostPort(p.Address, "0"),
		Guard: manager.Guard{Open: true}, StepTimeout: time.Minute, HealTimeout: time.Minute, Backend: tcp.New(tcp.Options{Listen: p.Address, BeatTimeout: p.BeatTimeout, Logger: p.log()}),
		MinReplicas: 1, Log: p.log(),
	})
	if err != nil {
		return err
	}
	params, grads := make([]float32, 1<<16), make([]float32, 1<<16)
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
	}, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer m.Close() //nolint:errcheck // the process ends
	wg.Go(func() { _ = m.Run(ctx) })
	var mu sync.Mutex
	var gap time.Duration
	last, failed := time.Now(), ""
	wg.Go(func() {
		for ctx.Err() == nil {
			ok, err := step(ctx, m, params, grads)
			mu.Lock()
			if ok {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
			if err != nil && ctx.Err() == nil {
				failed = err.Error()
				cancel()
			}
			mu.Unlock()
		}
	})
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		mu.Lock()
		s := standing{
			Step: m.Step(), Quorum: m.QuorumID(), Members: m.NumParticipants(), Gap: max(gap, time.Since(last)), Err: failed,
		}
		if in.Text() == `"anew"` {
			gap = 0
		}
		mu.Unlock()
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return in.Err()
}

// step is one turn of a training loop.
func step(ctx context.Context, m *manager.Manager, params, grads []float32) (bool, error) {
	if err := m.StartQuorum(ctx); err != nil {
		return false, err
	}
	select { // the forward pass
	case <-time.After(40 * time.Millisecond):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	for i := range grads {
		grads[i] = float32(i) + float32(m.Step())
	}
	_ = m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // reported to the manager
	ok, err := m.ShouldCommit(ctx)
	for i := range params {
		if ok {
			params[i] -= grads[i]
		}
	}
	return ok, err
}

// keepLighthouse serves, says where, and then its status for each line that it
// reads.
func keepLighthouse(ctx context.Context, w spawn.Worker) error {
	var p place
	if err := json.Unmarshal(w.Args, &p); err != nil {
		return err
	}
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.Log = net.JoinHostPort(p.Address, "0"), p.log()
	cfg.Guard.Open = true
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = s.Run(ctx) })
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		st, err := s.Status(ctx)
		if err != nil {
			return err
		}
		if err := out.Encode(st); err != nil {
			return err
		}
	}
	return in.Err()
}
