// Command trainer trains one replica of package digits until it has had all its
// steps. Start it several times, beside a lighthouse, with different indices;
// kill and restart whichever you like.
//
//	go run ./cmd/lighthouse
//	go run ./examples/digits/trainer --index 0 --replicas 2
//	go run ./examples/digits/trainer --index 1 --replicas 2
//
// One dash before a flag's name will do, too.
//
// A replica that is through takes part, without learning more, for the time
// that --linger says, so that one that is behind can still heal. SIGTERM and
// Ctrl-C drain it: it finishes its step, and leaves once the others have formed
// a quorum without it; a second signal ends it at once. So does an operator's kill,
// by the lighthouse's page or "skerry kill", with status 1. The status after a drain is 0, as
// that after the last step; --drained-status has another one, by which a scheduler knows a
// replica that is to come back. What no flag says is taken
// from the environment, as manager.Config.FromEnv has it: SKERRY_TLS_CA,
// SKERRY_TLS_CERT, SKERRY_TLS_KEY and SKERRY_TOKEN_FILE guard it; and its steps are traced
// to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set: see package oteltrace.
//
// With --checkpoint-dir, a folder that all replicas share, one of them writes a checkpoint
// in every so many steps. When all have died, start them again with the same flags: they go on
// from the newest one that is whole.
//
// With --rounds diloco the replicas exchange parameters once in ten steps, and not gradients in
// each: package localsgd.
//
// With --gpu baby:nccl gradients are averaged on an NVIDIA GPU, by NCCL in a child process:
// see package gpu.
//
// With a lighthouse on another host it listens on the address from which it reaches
// that, and must be guarded, or told --open; on the lighthouse's own host, name the
// lighthouse by the address that the others use, too.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/launch/spare"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/manager/oteltrace"
	"github.com/skerry-ft/skerry/pg/baby"
)

func main() {
	if err := registerGPU(); err != nil {
		fmt.Fprintln(os.Stderr, "trainer:", err)
		os.Exit(1)
	}
	baby.Init()                        // the child of --gpu baby:nccl does not come back from here
	signals := make(chan os.Signal, 2) // as many as mean something
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(signals, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(signals <-chan os.Signal, args []string, stdout, stderr io.Writer) int {
	if err := waitForPlace(signals); errors.Is(err, spare.ErrNotNeeded) {
		return 0
	} else if err != nil {
		fmt.Fprintf(stderr, "trainer: %s\n", printable.Text(err.Error()))
		return 1
	}
	o, err := parse(args, stdout)
	if err == nil && !o.help {
		tell := &teller{w: stdout}
		if err = train(signals, o, tell, stderr); err == nil && tell.drained.Load() {
			return o.drained
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "trainer: %s\n", printable.Text(err.Error()))
		if _, usage := errors.AsType[usageError](err); usage {
			return statusUsage
		}
		return 1
	}
	return 0
}

// waitForPlace blocks in a spare of skerry run until it is a replica: its index is that of its shard.
// A signal ends the wait, as one that is not needed.
func waitForPlace(signals <-chan os.Signal) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	done := make(chan error, 1)
	go func() { done <- spare.Wait(ctx) }()
	select {
	case err := <-done:
		return err
	case <-signals:
		end()
		<-done
		return spare.ErrNotNeeded
	}
}

// die ends the process at once, as an operator wants of a replica that is not to
// finish its step. The others see a death like any other.
func die(stderr io.Writer, reason string) {
	fmt.Fprintf(stderr, "trainer: killed by an operator: %s\n", printable.Text(cmp.Or(reason, "no reason given")))
	os.Exit(1)
}

// errTwice ends a trainer that was told to end while it drained.
var errTwice = errors.New("ended before others could take over")

// train runs one replica to its end.
func train(signals <-chan os.Signal, o options, tell *teller, stderr io.Writer) (err error) {
	log := zerolog.Nop()
	switch {
	case o.debug:
		log = logline.Console(stderr, false).Level(zerolog.DebugLevel)
	case o.verbose:
		log = logline.Console(stderr, false).Level(zerolog.InfoLevel)
	}
	cfg := manager.Config{
		Guard:          manager.Guard{Open: o.open, TLSData: o.tlsData},
		Listen:         o.listen,
		Advertise:      o.advertise,
		ReplicaID:      fmt.Sprintf("replica-%d", o.digits.Shard.Index),
		GroupWorldSize: 1,
		Lighthouse:     o.lighthouse,
		StepTimeout:    o.stepTimeout,
		TotalSteps:     o.totalSteps(),
		OnEvent:        tell.event,
		OnKill:         func(reason string) { die(stderr, reason) },
		Log:            log,
	}
	if err := cfg.FromEnv(); err != nil {
		return err
	}
	if cfg.Lighthouse == nil {
		cfg.Lighthouse = []string{defaultLighthouse}
	}
	k, err := openKeeper(o.keep, tell, log)
	if err != nil {
		return err
	}
	defer k.close()
	cfg.Start = k.start()
	closeGPU, err := openGroup(&o, &cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeGPU()) }()
	untrace, err := traced(&cfg)
	if err != nil {
		return errors.Join(err, cfg.Backend.Close())
	}
	defer untrace()
	m, err := manager.New(cfg)
	if err != nil {
		return errors.Join(err, cfg.Backend.Close())
	}
	o.digits.OnStep, o.digits.Checkpoints = tell.step, k.checkpoints
	t, closeIt, err := newLearner(o, m)
	if err == nil {
		defer func() { err = errors.Join(err, closeIt()) }()
		err = k.load(context.Background())
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	tell.line("%s looks for the lighthouse at %s", m.ReplicaID(), strings.Join(cfg.Lighthouse, ","))
	g, ctx := errgroup.WithContext(context.Background())
	work, stop := context.WithCancel(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error { return drainOn(work, signals, m) })
	g.Go(func() error { return k.run(work) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		defer stop()
		defer k.flush(work)
		return trainAndLeave(work, t, tell, o.linger)
	})
	return g.Wait()
}

// tracesPatience bounds how long the end of a trainer waits for a collector of traces.
const tracesPatience = 5 * time.Second

// traced has cfg's manager traced, if the environment names a collector; the function that
// it returns sends what was not sent yet.
func traced(cfg *manager.Config) (untrace func(), err error) {
	t, err := oteltrace.FromEnv(context.Background())
	if err != nil {
		return nil, err
	}
	t.Trace(cfg)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), tracesPatience)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			cfg.Log.Warn().Err(err).Msg("traces not sent") // which is no reason to fail
		}
	}, nil
}

// trainAndLeave trains, stays for those who are behind, and leaves in order. A
// drain ends each of these well.
func trainAndLeave(ctx context.Context, t learner, tell *teller, linger time.Duration) error {
	err := t.Run(ctx)
	if err == nil {
		tell.line("step %d: test accuracy %.4f, sha256 %s", t.Step(), t.Accuracy(), t.Hash())
		tell.done.Store(true)
		err = t.Finish(ctx, linger)
	}
	if errors.Is(err, manager.ErrDrained) {
		tell.drained.Store(!tell.done.Load())
		return nil
	}
	return err
}

// drainOn drains m at the first signal and fails at the second one.
func drainOn(ctx context.Context, signals <-chan os.Signal, m *manager.Manager) error {
	select {
	case <-signals:
	case <-ctx.Done():
		return nil
	}
	m.Drain()
	select {
	case <-signals:
		return errTwice
	case <-ctx.Done():
		return nil
	}
}

// teller prints what a person at the terminal wants to know. Safe for
// concurrent use.
type teller struct {
	mu sync.Mutex // of w

	w       io.Writer
	done    atomic.Bool // this replica has had its steps
	drained atomic.Bool // it left before it had
}

func (t *teller) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(t.w, printable.Line(fmt.Sprintf(format, args...)))
}

// every is how many steps lie between two lines of progress.
const every = 50

func (t *teller) step(r digits.Report) {
	if r.Committed && r.Step%every == 0 && !t.done.Load() {
		t.line("step %d: loss %.4f", r.Step, r.Loss)
	}
}

// event tells of what changes the course of training.
func (t *teller) event(e manager.Event) {
	if t.done.Load() {
		return
	}
	switch e := e.(type) {
	case manager.LighthouseFound:
		t.line("lighthouse found; http://%s/ shows who is there and what a quorum waits for", e.Address)
	case manager.QuorumFormed:
		t.line("quorum %d: %d of %d members take part", e.QuorumID, e.Participants, len(e.Members))
	case manager.StepDiscarded:
		t.line("step %d discarded: %v", e.Step, e.Cause)
	case manager.HealDone:
		if e.Position.Step > 0 || e.Err != nil { // at step 0 all take one replica's weights
			t.line("%v", e)
		}
	case manager.LighthouseLost, manager.Draining, manager.Stays:
		t.line("%v", e)
	}
}
