package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/launch/internal/child"
	"github.com/skerry-ft/skerry/launch/internal/keeper"
)

// Init turns the keeper's process into the keeper, and does not return in it; in any other
// process it returns at once. Call it at the top of main, or of TestMain, before flags are
// parsed: the keeper is this binary, begun again.
func Init() { keeper.Init() }

// ErrOver is returned by Scale when Run has returned.
var ErrOver = errors.New("launch: the job is over")

// Launcher runs one job, or one host's share of it. Run is called once; all else is safe for
// concurrent use.
type Launcher struct {
	cfg    Config
	scale  chan scaling
	over   chan struct{} // closed when Run has returned
	killed chan struct{} // closed by Kill
	kill   func()

	mu struct {
		sync.Mutex

		lighthouse []string // where it is, once Run has found or started it

		ranks  map[*child.Process]struct{} // those that run
		starts map[*missed]struct{}        // those whose start is under way
	}
}

// missed are the signals that came while a rank was started.
type missed struct{ signals []syscall.Signal }

// missedMost bounds what a start remembers: to the kernel, too, ten of a kind are one.
const missedMost = 32

// folderPattern is how folders of temporary files are called.
const folderPattern = "skerry-run-"

// scaling is a call of Scale.
type scaling struct {
	replicas int
	answer   chan error // capacity 1
}

// New checks a configuration. It starts nothing. Errors: those of Validate, *CommandError
// among them.
func New(cfg Config) (*Launcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Launcher{cfg: cfg.withDefaults(), scale: make(chan scaling), over: make(chan struct{}), killed: make(chan struct{})}
	l.kill = sync.OnceFunc(func() { close(l.killed) })
	l.mu.ranks, l.mu.starts = make(map[*child.Process]struct{}), make(map[*missed]struct{})
	return l, nil
}

// Kill kills all ranks now, whatever they are doing, and ends Run. It is what a second Ctrl-C
// is for.
func (l *Launcher) Kill() { l.kill() }

// isKilled tells whether Kill was called.
func (l *Launcher) isKilled() bool {
	select {
	case <-l.killed:
		return true
	default:
		return false
	}
}

// Signal sends a signal to all ranks that run; one that is being started gets it when it runs.
func (l *Launcher) Signal(s syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.mu.ranks {
		p.Signal(s)
	}
	for m := range l.mu.starts {
		if len(m.signals) < missedMost {
			m.signals = append(m.signals, s)
		}
	}
}

// startRank starts a rank's process, which Signal reaches from now on: a process may run, and
// have written that it does, before its start has returned.
func (l *Launcher) startRank(s child.Spec) (*child.Process, error) {
	m := new(missed)
	l.mu.Lock()
	l.mu.starts[m] = struct{}{}
	l.mu.Unlock()
	p, err := child.Start(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.starts, m)
	if err != nil {
		return nil, err
	}
	l.mu.ranks[p] = struct{}{}
	for _, s := range m.signals {
		p.Signal(s)
	}
	return p, nil
}

// Lighthouse is where the job's lighthouse is, host:port; nil: Run has none yet.
func (l *Launcher) Lighthouse() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lighthouse
}

// Scale changes how many replicas are wanted of the job, while Run runs; of a job of several
// launchers each is to be told the same. What is missing of this one's share is started at once;
// of too many the highest are sent SIGTERM, at which they drain. One that was given up and is
// wanted is started as one that has cost nothing. It returns when that has begun.
// Errors: ErrOver; the end of ctx; a number that the configuration does not allow.
func (l *Launcher) Scale(ctx context.Context, replicas int) error {
	if err := l.check(replicas); err != nil {
		return err
	}
	s := scaling{replicas, make(chan error, 1)}
	select {
	case l.scale <- s:
		return <-s.answer
	case <-l.over:
		return ErrOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// check says why this launcher cannot do its share of so many replicas. Of several launchers one
// may have less to do than it was started with, or nothing.
func (l *Launcher) check(replicas int) error {
	nodes := l.cfg.Nodes
	least, most, devices := 1, maxProcesses/l.cfg.Ranks*nodes, len(l.cfg.CUDADevices)/l.cfg.Ranks*nodes
	if nodes == 1 {
		least = l.cfg.MinReplicas
	}
	switch {
	case replicas < least || replicas > most:
		return fmt.Errorf("replicas = %d, want %d (MinReplicas) to %d", replicas, least, most)
	case len(l.cfg.CUDADevices) > 0 && replicas > devices:
		return fmt.Errorf("replicas = %d, want %d at most: there are %d devices on this host", replicas, devices, len(l.cfg.CUDADevices))
	}
	return nil
}

// Run runs the job to its end and returns what became of it, with an error as well. The end of
// ctx stops the job: all ranks are sent SIGTERM, and SIGKILL after Config.Grace; that alone
// is no error. Errors: *JobError, whose cause is a *Failure, if too few replicas are
// left; *CommandError if the command cannot be run; those of a lighthouse or a
// keeper that cannot be started.
func (l *Launcher) Run(ctx context.Context) (report Report, err error) {
	defer close(l.over)
	began := time.Now()
	defer func() { report.Took = time.Since(began) }()
	report.Job = l.cfg.Job
	folder, err := os.MkdirTemp("", folderPattern)
	if err == nil {
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	} // else each start tries again, and says so
	mark := rand.Text()
	k, err := keeper.Start(mark, folder)
	if err != nil {
		return report, err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	beside.Go(func() {
		if err := k.Run(around); err != nil {
			l.cfg.Log.Warn().Err(err).Msg("keeper ended with an error")
		}
	})
	addresses, steps, err := l.lighthouse(around, &beside)
	if err != nil {
		return report, err
	}
	l.mu.Lock()
	l.mu.lighthouse = addresses
	l.mu.Unlock()
	r := newRun(l, l.cfg.plan(addresses), k, mark, folder)
	defer r.close()
	if steps != nil {
		beside.Go(func() { r.watch(around, steps) })
	}
	if l.cfg.Wanted != nil {
		beside.Go(func() { r.ask(around, addresses) })
	}
	err = r.loop(ctx)
	report.Replicas = r.reports()
	return report, err
}
