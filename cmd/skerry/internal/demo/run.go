package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/train/spawn"
)

const (
	// stepLimit is how long no replica may commit a step before the demo gives
	// up. It is longer than every timeout of a trainer.
	stepLimit = 60 * time.Second
	// endTime is how long workers get to end by themselves.
	endTime = 3 * time.Second
	// maxEnds is how often in a row a worker may end that the demo did not kill.
	maxEnds = 5
	// inboxSize holds what workers say while the demo draws or kills.
	inboxSize = 1024
)

// worker is one process of the demo, in all its incarnations.
type worker struct {
	name       string
	index      int // among those of its kind
	generation int // starts so far
	ends       int // in a row that the demo did not order, without a step between
	proc       *spawn.Process
	take       func(event)                     // of this incarnation
	ended      func(at int64, why error) error // not by the demo
}

// message is what a worker said, or that it ended.
type message struct {
	from       *worker
	generation int
	event      event
	exited     bool
	at         int64 // by eventline.Now, when it exited
	err        error // of a worker that exited
}

// demo runs one demonstration. It is owned by the goroutine in run; workers'
// output comes through inbox.
//
//	lighthouses ┐
//	replica-0 ──┤ lines of JSON        ┌─▶ view    (progress)
//	   …        ├──────────────▶ inbox ┼─▶ ledger  (what the report is made of)
//	replica-n ──┘                      └─▶ killer  (SIGKILL, restart)
type demo struct {
	cfg      config
	view     *view
	ledger   *ledger
	rng      *rand.Rand
	inbox    chan message
	over     chan struct{} // closed when inbox is read no more
	wg       sync.WaitGroup
	houses   []*house
	address  string // of the first lighthouse, and its dashboard
	dataDir  string // of the lighthouses, if there are several
	leader   *house // the lighthouse that leads, as far as it is known
	replicas []*replica

	nextKill  int64 // the step after which the next victim dies; 0: never
	nextHouse int64 // the step after which the leading lighthouse dies; 0: never
	killAt    *time.Timer
	postponed bool // a kill came when no replica could be spared: it is due as soon as one can
}

// replica is one trainer.
type replica struct {
	worker

	id        string // of this incarnation, once it has told
	step      int64
	loss      float64
	phase     string
	committed bool   // this incarnation has committed a step
	final     *event // of this incarnation
	left      string // why it is gone for good: an operator drained or evicted it
	child     int    // process that runs its backend, 0: none but its own
}

// run runs the demo and prints the report. It returns an error, too, when
// the report shows something wrong.
func run(ctx context.Context, c config, stdout, stderr io.Writer) error {
	progress := stdout
	if c.Output.JSON() {
		progress = stderr
	}
	d := newDemo(c, newView(progress))
	defer d.view.quiet()()
	defer d.end()
	begin := time.Now()
	err := d.train(ctx)
	d.view.draw(d)
	if err != nil && (ctx.Err() == nil || d.ledger.steps() == 0) {
		return err
	}
	r := d.ledger.report(d, time.Since(begin))
	trouble := r.tell(stdout, c.Output.JSON())
	if err != nil {
		return err // of who has seen enough
	}
	if c.Stay {
		d.stay(ctx)
	}
	return trouble
}

// tell prints the report, and returns what is wrong with the run.
func (r Report) tell(stdout io.Writer, asJSON bool) error {
	if asJSON {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		fmt.Fprintln(stdout, string(printable.JSON(line)))
	} else {
		r.print(stdout)
	}
	if trouble := r.trouble(); trouble != "" {
		return errors.New(trouble)
	}
	return nil
}

func newDemo(c config, v *view) *demo {
	d := &demo{
		cfg: c, view: v, ledger: newLedger(),
		rng:   rand.New(rand.NewPCG(c.Seed, 0)),
		inbox: make(chan message, inboxSize), over: make(chan struct{}),
		nextKill: c.KillEvery, killAt: time.NewTimer(time.Hour),
	}
	d.killAt.Stop()
	if c.Lighthouses > 1 && c.KillEvery > 0 {
		d.nextHouse = max(c.KillEvery/2, 1)
	}
	for i := range c.Replicas {
		r := &replica{worker: worker{index: i, name: fmt.Sprintf("replica-%d", i)}}
		r.take = func(e event) { d.takeReplica(r, e) }
		r.ended = func(at int64, why error) error { return d.replicaEnded(r, at, why) }
		d.replicas = append(d.replicas, r)
	}
	return d
}

// end leaves no process behind.
func (d *demo) end() {
	close(d.over)
	d.stop(d.replicas, d.houses) // houses last: the others talk to them
	d.wg.Wait()
}

// stay leaves the lighthouses, and with them the page, until ctx ends.
func (d *demo) stay(ctx context.Context) {
	d.stop(d.replicas, nil)
	d.view.note("the dashboard stays at http://%s/ until Ctrl-C", d.address)
	for {
		select {
		case <-d.inbox: // of those who have ended
		case <-ctx.Done():
			return
		}
	}
}

// train starts everybody, and trains to the end.
func (d *demo) train(ctx context.Context) error {
	if err := d.startHouses(ctx); err != nil {
		return err
	}
	d.view.note("%s ready, dashboard at http://%s/", cli.Plural(len(d.houses), "lighthouse"), d.address)
	for _, r := range d.replicas {
		if err := d.start(r); err != nil {
			return err
		}
	}
	patience := time.NewTimer(stepLimit)
	defer patience.Stop()
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	for !d.finished() {
		select {
		case m := <-d.inbox:
			before := d.ledger.steps()
			if err := d.take(ctx, m); err != nil {
				return err
			}
			if d.ledger.steps() > before {
				patience.Reset(stepLimit)
			}
		case <-d.killAt.C:
			if err := d.kill(); err != nil {
				return err
			}
		case <-redraw.C:
			d.view.draw(d)
		case <-patience.C:
			return fmt.Errorf("no step was committed for %v: %s", stepLimit, d.phases())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// start starts r's next incarnation.
func (d *demo) start(r *replica) error {
	*r = replica{worker: r.worker, phase: "starting", step: r.step, loss: r.loss}
	kind := trainerWorker
	if d.cfg.Trainer == trainerPython {
		kind = pythonWorker
	}
	return d.spawn(kind, &r.worker, d.args(&r.worker))
}

// spawn starts the next incarnation of w, whose events and end come to the inbox.
func (d *demo) spawn(kind string, w *worker, a workerArgs) error {
	args, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode arguments: %w", err)
	}
	w.generation++
	generation := w.generation
	out := events(func(e event) {
		d.send(message{from: w, generation: generation, event: e})
	})
	p, err := spawn.Start(spawn.Worker{Name: kind, Rank: w.index, WorldSize: d.cfg.Replicas, Args: args}, spawn.Options{Stdout: out})
	if err != nil {
		return err
	}
	w.proc = p
	d.wg.Go(func() { // ends with the worker, which stop sees to
		<-p.Done()
		d.send(message{from: w, generation: generation, exited: true, at: eventline.Now(), err: p.Wait(context.Background())})
	})
	return nil
}

// send puts m into the inbox, unless it is read no more.
func (d *demo) send(m message) {
	select {
	case d.inbox <- m:
	case <-d.over:
	}
}

// stop ends workers: SIGTERM, a little time, SIGKILL.
func (d *demo) stop(replicas []*replica, houses []*house) {
	var procs []*spawn.Process
	for _, r := range replicas {
		if r.proc != nil {
			procs = append(procs, r.proc)
		}
	}
	for _, h := range houses {
		if h.proc != nil {
			procs = append(procs, h.proc)
		}
	}
	for _, p := range procs {
		_ = p.Signal(syscall.SIGTERM) // gone already is as good
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	for _, p := range procs {
		_ = p.Wait(ctx) // how it ended does not matter any more
		p.Kill()
	}
	if houses != nil && d.dataDir != "" {
		_ = os.RemoveAll(d.dataDir) // the system empties its folder for such, too
	}
}

// take takes in one message. Ctx ends when the user has seen enough.
func (d *demo) take(ctx context.Context, m message) error {
	w := m.from
	switch {
	case m.generation != w.generation: // of an incarnation that is dead
	case m.exited && ctx.Err() != nil: // Ctrl-C reaches workers, too
	case m.exited:
		if w.ends++; w.ends > maxEnds {
			return fmt.Errorf("%s ended %d times in a row: %w", w.name, w.ends, oneLine(endOf(m.err)))
		}
		return w.ended(m.at, endOf(m.err))
	case m.event.Kind == eventFailed && d.ledger.steps() == 0: // nor will it the next time
		return fmt.Errorf("%s: %s", w.name, m.event.Text)
	case m.event.Kind == eventFailed:
		d.view.note("%s: %s", w.name, m.event.Text)
	default:
		w.take(m.event)
	}
	return nil
}

// replicaEnded gets over a replica that the demo did not end: as over one of
// its own victims, unless an operator has it away.
func (d *demo) replicaEnded(r *replica, at int64, why error) error {
	if r.left != "" {
		r.proc, r.phase = nil, "left"
		d.ledger.dismiss(r)
		d.view.note("%s is gone: %s", r.name, r.left)
		return nil
	}
	d.view.note("step %d: %s ended, and not by this demo: %v", d.ledger.steps(), r.name, why)
	d.ledger.killed(at, r, d.replicas)
	if byOthers(why) {
		d.ledger.foreign++
	} else {
		d.ledger.crashes = append(d.ledger.crashes, oneLine(why).Error())
	}
	return d.start(r)
}

func (d *demo) takeReplica(r *replica, e event) {
	if e.Kind == eventDiscarded && e.Step > d.cfg.Steps {
		return // of those who linger
	}
	if e.Kind == eventCommitted {
		for _, h := range d.houses {
			h.ends = 0
		}
	}
	d.ledger.take(r, e)
	d.view.event(r, e)
	r.note(e)
	d.schedule(e)
}

// byOthers says that somebody has ended a worker, rather than a fault of its own.
func byOthers(why error) bool {
	exit, ok := errors.AsType[*spawn.ExitError](why)
	return ok && (exit.Signal == syscall.SIGKILL || exit.Signal == syscall.SIGTERM || exit.Signal == syscall.SIGINT)
}

// endOf is why a worker ended that should not have.
func endOf(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// note keeps what the view and the killer need to know of e.
func (r *replica) note(e event) {
	switch e.Kind {
	case eventStarted:
		r.id, r.phase = e.ReplicaID, "joining"
	case eventQuorum:
		r.phase = "training"
	case eventHealStarted:
		r.phase = "healing"
	case eventHealed:
		r.step, r.phase = e.Step, "training"
	case eventCommitted:
		r.step, r.loss, r.committed, r.phase = e.Step, e.Loss, true, "training"
		r.child, r.ends = e.ChildPID, 0
	case eventDiscarded:
		r.phase = "discarded"
	case eventLeft:
		r.left, r.phase, r.committed = e.Text, "leaving", false
	case eventFinal:
		r.final, r.step, r.phase = &e, e.Step, "done"
	}
}

// schedule sets the clock for the next victim when its step has come. The
// victim dies at a random moment of the step after.
func (d *demo) schedule(e event) {
	if e.Kind != eventCommitted {
		return
	}
	if d.nextHouse > 0 && e.Step >= d.nextHouse && e.Step < d.cfg.Steps && d.killLeader() {
		d.nextHouse += d.cfg.KillEvery
	}
	switch {
	case d.nextKill > 0 && e.Step >= d.nextKill && e.Step < d.cfg.Steps:
		d.nextKill += d.cfg.KillEvery
		d.killAt.Reset(time.Duration(d.rng.Int64N(int64(d.cfg.StepTime) + 1)))
	case d.postponed && len(d.candidates()) > 1:
		d.killAt.Reset(0)
	}
}

// candidates are the replicas that have committed a step since they started.
func (d *demo) candidates() []*replica {
	return slices.DeleteFunc(slices.Clone(d.replicas), func(r *replica) bool { return !r.committed || r.final != nil })
}

// kill sends SIGKILL to one replica and starts it again at once. The last one
// that holds the state is spared: the kill waits until another does.
func (d *demo) kill() error {
	alive := d.candidates()
	if d.ledger.steps() >= d.cfg.Steps {
		return nil
	}
	if d.postponed = len(alive) < 2; d.postponed {
		return nil
	}
	victim := alive[d.rng.IntN(len(alive))]
	if victim.child != 0 && d.ledger.children*2 <= len(d.ledger.outages) {
		return d.killChild(victim)
	}
	d.view.note("step %d: SIGKILL to %s (pid %d)", d.ledger.steps(), victim.name, victim.proc.PID())
	at := eventline.Now()
	victim.proc.Kill()
	d.ledger.killed(at, victim, d.replicas)
	return d.start(victim)
}

// killChild sends SIGKILL to the process that runs victim's backend. The replica
// itself gets over it like everybody else. Half of the kills are of this kind
// where there are such processes.
func (d *demo) killChild(victim *replica) error {
	d.view.note("step %d: SIGKILL to the child of %s (pid %d)", d.ledger.steps(), victim.name, victim.child)
	at := eventline.Now()
	if err := syscall.Kill(victim.child, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the child of %s: %w", victim.name, err)
	}
	victim.child = 0
	d.ledger.killed(at, nil, d.replicas)
	return nil
}

// finished tells whether every replica that is to stay has made all steps.
func (d *demo) finished() bool {
	return !slices.ContainsFunc(d.replicas, func(r *replica) bool { return r.final == nil && r.proc != nil })
}

// phases says where everybody is, for the error that nothing moves.
func (d *demo) phases() string {
	var all []string
	for _, r := range d.replicas {
		all = append(all, fmt.Sprintf("%s at step %d %s", r.name, r.step, r.phase))
	}
	return strings.Join(all, ", ")
}
