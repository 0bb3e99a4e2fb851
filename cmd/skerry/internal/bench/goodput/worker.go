package goodput

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

// RegisterWorkers names what this binary can be re-executed as. Its main calls it before baby.Init.
func RegisterWorkers() {
	spawn.Register(hubWorker, asWorker(idle))
	spawn.Register(serverWorker, asWorker(serve))
	spawn.Register(replicaWorker, asWorker(train))
	spawn.Register(torchftWorker, asWorker(becomeTorchft))
}

// The names of workers.
const (
	hubWorker     = "goodput-switch"
	serverWorker  = "goodput-lighthouse"
	replicaWorker = "goodput-replica"
	torchftWorker = "goodput-torchft"
)

// Timeouts of a replica. Nothing on one host takes long, so a hang shall show soon.
const (
	stepTimeout = 20 * time.Second
	healTimeout = 30 * time.Second
)

// endless is more steps than a run can make, and a whole number of rounds.
const endless = 1_000_000 * digits.RoundSteps

// workerArgs is what a worker is told.
type workerArgs struct {
	Name    string
	Mode    string
	Step    time.Duration
	Seed    uint64
	Count   int      // of replicas
	Host    string   // to listen on
	Apart   bool     // peers are on other hosts
	Servers []string // addresses of the lighthouse
	DataDir string   // of a server

	ShareDir string // in which processes with networks of their own find each other's memory; "": they have not
	Log      string // file; "": none

	Python  []string // interpreter and first arguments, of torchft's workers
	Program []byte   // and what they run
}

// asWorker makes a worker of a function, which begins when the worker is told to by a byte: then
// it has its network.
func asWorker(f func(context.Context, int, workerArgs, emitter) error) spawn.Func {
	return func(ctx context.Context, w spawn.Worker) error {
		var a workerArgs
		if err := json.Unmarshal(w.Args, &a); err != nil {
			return fmt.Errorf("read arguments: %w", err)
		}
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			return fmt.Errorf("wait to begin: %w", err)
		}
		out := emitter{eventline.To(os.Stdout)}
		err := f(ctx, w.Rank, a, out)
		if err != nil && ctx.Err() == nil {
			out.emit(event{Kind: eventFailed, Text: err.Error()})
		}
		return err
	}
}

// idle is the process whose network has the switch.
func idle(ctx context.Context, _ int, _ workerArgs, _ emitter) error {
	<-ctx.Done()
	return nil
}

// logTo opens a worker's log.
func (a workerArgs) logTo() (zerolog.Logger, func() error, error) {
	if a.Log == "" {
		return zerolog.Nop(), func() error { return nil }, nil
	}
	f, err := os.OpenFile(a.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // it is for everyone
	if err != nil {
		return zerolog.Nop(), nil, err
	}
	return logline.JSON(f).With().Int("pid", os.Getpid()).Logger(), f.Close, nil
}

// serve is one server of the lighthouse.
func serve(ctx context.Context, _ int, a workerArgs, out emitter) error {
	log, closeLog, err := a.logTo()
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // the process ends
	cfg := lighthouse.DefaultConfig()
	cfg.Guard.Open, cfg.DataDir, cfg.Log = a.Apart, a.DataDir, log
	cfg.Listen = a.Host + ":0"
	cfg.Cluster.Expect, cfg.Cluster.Join = servers, a.Servers
	cfg.Cluster.RaftAddress, cfg.Cluster.GossipAddress = a.Host+":0", a.Host+":0"
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	out.emit(event{Kind: eventReady, Address: s.Addr().String()})
	return s.Run(ctx)
}

// train is one replica, until it is killed.
func train(ctx context.Context, index int, a workerArgs, out emitter) error {
	log, closeLog, err := a.logTo()
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // the process ends
	// Gradients go by memory, as within one host, and all else by sockets: so a replica that is
	// cut off is found by its silence.
	links := tcp.Options{Open: a.Apart, ShareDir: a.ShareDir, Logger: log}
	var participants atomic.Int64
	backend := tcp.New(links)
	m, err := manager.New(manager.Config{
		ReplicaID: a.Name, Guard: manager.Guard{Open: a.Apart}, Lighthouse: a.Servers, MinReplicas: 1,
		StepTimeout: stepTimeout, HealTimeout: healTimeout, Backend: backend, Log: log,
		OnEvent: func(e manager.Event) {
			switch e := e.(type) {
			case manager.QuorumFormed:
				participants.Store(int64(e.Participants))
			case manager.StepDiscarded:
				out.emit(event{Kind: eventDiscarded, Step: e.Step, Text: fmt.Sprint(e.Cause)})
			}
		},
	})
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	l, err := newLearner(index, a, m, func(step int64, hash string) {
		out.emit(event{Kind: eventCommitted, Step: step, Participants: int(participants.Load()), Hash: hash})
	})
	if err != nil {
		return errors.Join(err, m.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		return l.Run(ctx)
	})
	return g.Wait()
}

// learner is what learns: a digits.Trainer, or digits.Rounds.
type learner interface {
	Run(ctx context.Context) error
	Hash() string
}

// newLearner makes the learner of a mode, which tells of each step that it commits.
func newLearner(index int, a workerArgs, m *manager.Manager, committed func(step int64, hash string)) (l learner, err error) {
	var told int64
	c := digits.Config{
		Seed: a.Seed, Steps: endless, StepTime: a.Step, Shard: digits.Shard{Index: index, Count: a.Count},
		OnStep: func(r digits.Report) {
			if r.Committed && r.Step > told {
				told = r.Step
				committed(r.Step, l.Hash())
			}
		},
	}
	if a.Mode == DiLoCo {
		l, err = digits.NewRounds(digits.RoundsConfig{Config: c, By: digits.ByDiLoCo}, m)
	} else {
		l, err = digits.NewTrainer(c, m)
	}
	return l, err
}
