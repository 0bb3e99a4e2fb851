package goodput

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
)

// servers is how many of ours form the lighthouse.
const servers = 3

const (
	// patience bounds the wait for the first step of all replicas, and for any step after it.
	patience = 3 * time.Minute
	// maxEnds is how often in a row a process may end that this bench did not kill.
	maxEnds = 5
	// inboxSize holds what processes say while a fault is done.
	inboxSize = 4096
	// noteEvery is the time between two lines of progress.
	noteEvery = time.Minute
)

// run is one run. It is owned by the goroutine of Run; what processes say comes through inbox.
type run struct {
	cfg      Config
	ledger   *ledger
	rng      *rand.Rand
	dir      string // of the lighthouse's data
	python   []string
	fabric   *fabric
	hub      *process // whose network has the switch; nil: none
	servers  []*process
	ready    []string // addresses of servers; "": not told yet
	replicas []*process

	inbox chan message
	over  chan struct{} // closed when inbox is read no more
	ends  chan *blow    // faults whose time is over
	wg    sync.WaitGroup
	due   *time.Timer // the next fault
	next  int64       // the step after which it comes, by steps
}

// Run measures once.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &run{
		cfg: c, ledger: newLedger(), rng: rand.New(rand.NewPCG(c.Seed, 0)),
		inbox: make(chan message, inboxSize), over: make(chan struct{}), ends: make(chan *blow, maxReplicas), due: time.NewTimer(time.Hour),
	}
	defer r.due.Stop()
	r.due.Stop()
	if c.Impl == Torchft {
		if r.python, err = torchftPython(ctx); err != nil {
			return nil, err
		}
	}
	if r.dir, err = os.MkdirTemp("", "skerry-goodput-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	res := r.result()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.note("%d replicas train", c.Replicas)
	r.ledger.start()
	err = r.measure(ctx)
	if err != nil && (ctx.Err() == nil || r.ledger.end == r.ledger.begin) {
		return nil, err
	}
	r.finish(res)
	return res, nil
}

// prepare starts all processes, and returns when all replicas have committed a step together.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no step of all %d replicas within %v", r.cfg.Replicas, patience))
	defer cancel()
	hosts := r.cfg.Replicas
	count, worker := servers, serverWorker
	if r.cfg.Impl == Torchft {
		count, worker = 1, torchftWorker
	}
	if r.cfg.partitions() {
		r.hub = &process{name: "switch", worker: hubWorker, host: hosts + count}
		if err := r.start(r.hub); err != nil {
			return err
		}
		var err error
		if r.fabric, err = newFabric(r.hub.proc.PID(), hosts+count); err != nil {
			return err
		}
	}
	r.ready = make([]string, count)
	for i := range count {
		p := &process{name: fmt.Sprintf("lighthouse-%d", i), worker: worker, host: hosts + i}
		r.servers = append(r.servers, p)
		if err := r.start(p); err != nil {
			return err
		}
		if err := r.until(ctx, func() bool { return r.ready[i] != "" }); err != nil {
			return err
		}
	}
	worker = cmp.Or(map[string]string{Torchft: torchftWorker}[r.cfg.Impl], replicaWorker)
	for i := range r.cfg.Replicas {
		p := &process{name: fmt.Sprintf("replica-%d", i), worker: worker, host: i}
		r.replicas = append(r.replicas, p)
		if err := r.start(p); err != nil {
			return err
		}
	}
	return r.until(ctx, func() bool {
		all := r.ledger.commits
		return len(all) > 0 && all[len(all)-1].participants == r.cfg.Replicas
	})
}

// until takes messages until something is true.
func (r *run) until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case m := <-r.inbox:
			if err := r.take(m); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// measure does faults until the time is over.
func (r *run) measure(ctx context.Context) error {
	over := time.NewTimer(r.cfg.Duration)
	defer over.Stop()
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	notes := time.NewTicker(noteEvery)
	defer notes.Stop()
	if r.next = r.cfg.EverySteps; r.next > 0 {
		r.next += r.ledger.first
	} else {
		r.due.Reset(r.cfg.Every)
	}
	defer func() { r.ledger.end = max(eventline.Now(), r.ledger.begin) }()
	for {
		select {
		case m := <-r.inbox:
			before := len(r.ledger.commits)
			if err := r.take(m); err != nil {
				return err
			}
			if len(r.ledger.commits) > before {
				stuck.Reset(patience)
				r.afterStep()
			}
		case <-r.due.C:
			if err := r.fault(); err != nil {
				return err
			}
			if r.cfg.Every > 0 {
				r.due.Reset(r.cfg.Every)
			}
		case b := <-r.ends:
			if err := r.mend(b); err != nil {
				return err
			}
		case <-notes.C:
			r.tellProgress()
		case <-stuck.C:
			return fmt.Errorf("no step was committed for %v", patience)
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// afterStep sets the clock for a fault that comes by steps: a random moment of the next.
func (r *run) afterStep() {
	step := r.ledger.commits[len(r.ledger.commits)-1].step
	if r.next > 0 && step >= r.next {
		r.next += r.cfg.EverySteps
		r.due.Reset(time.Duration(r.rng.Int64N(int64(r.cfg.Step) + 1)))
	}
}

// take takes one message.
func (r *run) take(m message) error {
	p := m.from
	switch {
	case m.generation != p.generation: // of an incarnation that is dead
	case m.exited:
		return r.ended(p, m.err)
	case m.event.Kind == eventReady:
		r.ready[p.host-r.cfg.Replicas] = m.event.Address
	case m.event.Kind == eventDiscarded:
		r.ledger.discarded[m.event.Step]++
	case m.event.Kind == eventFailed:
		r.note("%s: %s", p.name, m.event.Text)
	case m.event.Kind == eventCommitted:
		p.trains, p.ends = true, 0
		e := m.event
		r.ledger.committed(p.host, commit{step: e.Step, at: e.AtNs, participants: e.Participants, hash: e.Hash})
		if p.blow != nil && p.blow.back != 0 {
			p.blow = nil
		}
	}
	return nil
}

// ended gets over a process that ended by itself: a replica starts again, as after a fault.
func (r *run) ended(p *process, why error) error {
	why = cmp.Or(why, errors.New("exit status 0"))
	if p.ends++; p.ends > maxEnds || !slices.Contains(r.replicas, p) {
		return fmt.Errorf("%s ended: %w", p.name, why)
	}
	r.note("%s ended, and not by this bench: %v", p.name, why)
	r.ledger.crashes++
	return r.start(p)
}

// fault does one to a replica that trains, and is not under one.
func (r *run) fault() error {
	able := slices.DeleteFunc(slices.Clone(r.replicas), func(p *process) bool { return !p.trains || p.blow != nil })
	if len(able) < 2 { // the last one that holds the state is spared
		r.ledger.skipped++
		return nil
	}
	p := able[r.rng.IntN(len(able))]
	b := &blow{kind: r.cfg.Faults[r.rng.IntN(len(r.cfg.Faults))], victim: p.host, at: eventline.Now()}
	p.blow, r.ledger.blows = b, append(r.ledger.blows, b)
	switch b.kind {
	case Kill:
		b.ended = b.at
		p.proc.Kill()
		<-p.proc.Done()
		return r.start(p)
	case Stop:
		return r.hold(b, p.proc.Signal(syscall.SIGSTOP))
	default:
		return r.hold(b, r.fabric.cut(p.host))
	}
}

// hold has a fault end after its time.
func (r *run) hold(b *blow, err error) error {
	if err == nil {
		time.AfterFunc(r.cfg.Hold, func() { r.ends <- b }) // has room for one of each replica
	}
	return err
}

// mend ends what lasts.
func (r *run) mend(b *blow) error {
	b.ended = eventline.Now()
	p := r.replicas[b.victim]
	if b.kind == Stop {
		if err := p.proc.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	}
	return r.fabric.mend(p.host)
}

// note tells a line to the person, if there is one.
func (r *run) note(format string, args ...any) {
	if r.cfg.Progress != nil {
		fmt.Fprintf(r.cfg.Progress, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
}

// tellProgress tells how far the run is.
func (r *run) tellProgress() {
	l := *r.ledger
	l.end = eventline.Now()
	all := l.counted()
	pace := l.pace(all)
	s := l.shares(all, pace, r.cfg.Step, r.cfg.Replicas)
	r.note("step %d, %d faults, goodput %.2f %%, compute %.2f %%, a step %v", all[len(all)-1].step, len(l.blows), 100*s.goodput, 100*s.compute, pace.Round(time.Millisecond))
}
