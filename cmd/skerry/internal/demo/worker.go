package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/python"
	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/train/spawn"
)

// RegisterWorkers names what the program around is re-executed as. Its main calls it before
// baby.Init.
func RegisterWorkers() {
	spawn.Register(trainerWorker, asWorker(train))
	spawn.Register(pythonWorker, asWorker(trainInPython))
	spawn.Register(lighthouseWorker, asWorker(serveLighthouse))
}

// The names under which this binary is re-executed.
const (
	trainerWorker    = "demo-trainer"
	pythonWorker     = "demo-trainer-python"
	lighthouseWorker = "demo-lighthouse"
)

// The trainers of the demo, and the module that is the latter.
const (
	trainerGo     = "go"
	trainerPython = "python"
	pythonModule  = "skerry.demo"
)

// Timeouts of the demo's trainers. Nothing on one machine takes long, so a
// hang shall show soon.
const (
	stepTimeout     = 20 * time.Second
	demoHealTimeout = 30 * time.Second
)

// workerArgs is what the demo tells a worker.
type workerArgs struct {
	Demo        config
	Name        string   // of the worker
	Lighthouses []string // addresses
	Listen      string   // of a lighthouse
	DataDir     string   // of a lighthouse that is one of several
}

// part is what a worker plays in the demo.
type part struct {
	workerArgs

	index int
	log   zerolog.Logger
	out   emitter
}

// asWorker makes a worker that plays a part, and tells the demo if that fails.
func asWorker(play func(context.Context, part) error) func(context.Context, spawn.Worker) error {
	return func(ctx context.Context, w spawn.Worker) (err error) {
		p := part{index: w.Rank, out: emitter{eventline.To(os.Stdout)}}
		defer func() {
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, manager.ErrDrained) || errors.Is(err, manager.ErrEvicted):
				p.out.emit(event{Kind: eventLeft, Text: err.Error()})
				err = nil
			default:
				p.out.emit(event{Kind: eventFailed, Text: err.Error()})
			}
		}()
		if err := json.Unmarshal(w.Args, &p.workerArgs); err != nil {
			return fmt.Errorf("read the demo's arguments: %w", err)
		}
		var closeLog func() error
		if p.log, closeLog, err = workerLog(p.Demo.LogDir, p.Name); err != nil {
			return err
		}
		defer closeLog()
		return play(ctx, p)
	}
}

// workerLog is where a worker logs to: a file of its own, or nowhere.
func workerLog(dir, name string) (zerolog.Logger, func() error, error) {
	if dir == "" {
		return zerolog.Nop(), func() error { return nil }, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return zerolog.Nop(), nil, fmt.Errorf("open log: %w", err)
	}
	log := logline.JSON(f).With().Int("pid", os.Getpid()).Logger()
	// Lines of one millisecond, too, can be put in order.
	log = log.Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Int64("at_us", eventline.Now()/1000)
	}))
	return log, f.Close, nil
}

// serveLighthouse is the part that serves quorums.
func serveLighthouse(ctx context.Context, a part) error {
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.Guard.Open = a.Listen, a.Demo.Open
	if n := a.Demo.Lighthouses; n > 1 {
		cfg.DataDir = a.DataDir
		cfg.Cluster.Expect, cfg.Cluster.Join = n, a.Lighthouses
		// Free ports again after a restart: gossip finds them.
		cfg.Cluster.RaftAddress, cfg.Cluster.GossipAddress = besideFirst(a.Demo.Listen), besideFirst(a.Demo.Listen)
	}
	cfg.Rules.MinReplicas = a.Demo.MinReplicas
	cfg.Log = a.log
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	a.out.emit(event{Kind: eventListening, Address: s.Addr().String()})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(gctx) })
	if a.Demo.Lighthouses > 1 {
		g.Go(func() error { return tellLeader(gctx, s, a.out) })
	}
	return g.Wait()
}

// tellEvery is how often a lighthouse looks whether it has become the leader.
const tellEvery = 50 * time.Millisecond

// tellLeader tells the demo, so that it can kill the right one.
func tellLeader(ctx context.Context, s *lighthouse.Server, out emitter) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	led := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		st, err := s.Status(ctx)
		leads := err == nil && st.Leads
		if leads && !led {
			out.emit(event{Kind: eventLeads})
		}
		led = leads
	}
}

// train runs one replica until the demo ends it: it trains, tells its hash,
// and lingers for those who are behind.
func train(ctx context.Context, a part) error {
	backend, err := pg.Open(a.Demo.Backend, pg.Options{Log: a.log})
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		ReplicaID:   a.Name, // its incarnations add a UUID
		Guard:       manager.Guard{Open: a.Demo.Open},
		Lighthouse:  a.Lighthouses,
		MinReplicas: a.Demo.MinReplicas,
		ParityEvery: a.Demo.ParityEvery,
		TotalSteps:  a.Demo.Steps,
		StepTimeout: stepTimeout,
		HealTimeout: demoHealTimeout,
		Backend:     backend,
		OnEvent:     func(e manager.Event) { tell(a.out, e) },
		OnKill:      func(string) { die() },
		Log:         a.log,
	})
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	t, err := newTrainer(a, m, childOf(backend))
	if err != nil {
		return errors.Join(err, m.Close())
	}
	// The manager outlives the trainer, so that it says goodbye: a run that ended well is told
	// as finished, not as lost.
	g, running := errgroup.WithContext(context.WithoutCancel(ctx))
	work, stop := context.WithCancel(running)
	defer context.AfterFunc(ctx, stop)()
	g.Go(func() error { return m.Run(running) })
	g.Go(func() error {
		defer stop()
		defer m.Close() // its error is Run's
		return trainAndLinger(work, t, m, a.out)
	})
	err = g.Wait()
	if ctx.Err() != nil {
		return nil // the demo has seen enough
	}
	return err
}

// die ends this process as an operator wants it, who kills a replica by the page or the tool: at once.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) } // no process lacks the right

// trainInPython becomes a trainer of the package skerry, which tells what happens as any worker does.
func trainInPython(_ context.Context, a part) error {
	return python.Become(pythonModule, digits.Raw(),
		"--name", a.Name, "--lighthouse", strings.Join(a.Lighthouses, ","), "--steps", fmt.Sprint(a.Demo.Steps), "--seed", fmt.Sprint(a.Demo.Seed),
		"--step-time", fmt.Sprint(a.Demo.StepTime.Seconds()), "--min-replicas", fmt.Sprint(a.Demo.MinReplicas),
		"--parity-every", fmt.Sprint(a.Demo.ParityEvery),
		"--timeout", fmt.Sprint(stepTimeout.Seconds()), "--heal-timeout", fmt.Sprint(demoHealTimeout.Seconds()))
}

// childOf tells the process that runs a backend now, 0 if that is this one.
func childOf(b pg.Backend) func() int {
	group, ok := b.(baby.Group)
	if !ok {
		return func() int { return 0 }
	}
	return func() int {
		pid, _ := group.Child()
		return pid
	}
}

func newTrainer(a part, m *manager.Manager, child func() int) (*digits.Trainer, error) {
	c := a.Demo
	var told int64 // the last step told of; lingering commits no new ones
	return digits.NewTrainer(digits.Config{
		Seed:     c.Seed,
		Steps:    c.Steps,
		Shard:    digits.Shard{Index: a.index, Count: c.Replicas},
		StepTime: c.StepTime,

		OwnGradientsUntil: c.skipsUntil(a.index),
		OnStep: func(r digits.Report) {
			if r.Committed && r.Step > told {
				told = r.Step
				a.out.emit(event{Kind: eventCommitted, Step: r.Step, Loss: r.Loss, QuorumID: m.Position().QuorumID, ChildPID: child()})
			}
		},
	}, m)
}

func trainAndLinger(ctx context.Context, t *digits.Trainer, m *manager.Manager, out emitter) error {
	out.emit(event{Kind: eventStarted, ReplicaID: m.ReplicaID()})
	if err := t.Run(ctx); err != nil {
		return err
	}
	stats, err := json.Marshal(statsOf(m.Stats()))
	if err != nil {
		return fmt.Errorf("encode stats: %w", err)
	}
	out.emit(event{Kind: eventFinal, Step: t.Step(), Hash: t.Hash(), Accuracy: t.Accuracy(), Stats: stats})
	return t.Linger(ctx)
}

// tell passes on what the manager says and the demo shows.
func tell(out emitter, e manager.Event) {
	switch e := e.(type) {
	case manager.QuorumFormed:
		out.emit(event{Kind: eventQuorum, QuorumID: e.QuorumID, Members: e.Members, Participants: e.Participants, TookMs: ms(e.Took)})
	case manager.StepDiscarded:
		out.emit(event{Kind: eventDiscarded, Step: e.Step, QuorumID: e.QuorumID, Text: fmt.Sprint(e.Cause)})
	case manager.StateDiffered:
		if e.Own {
			out.emit(event{Kind: eventDiffered, Step: e.Step, QuorumID: e.QuorumID, Text: e.String()})
		}
	case manager.HealStarted:
		out.emit(event{Kind: eventHealStarted, Step: e.Position.Step})
	case manager.HealDone:
		if e.Err == nil {
			out.emit(event{Kind: eventHealed, Step: e.Position.Step, TookMs: ms(e.Took)})
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
