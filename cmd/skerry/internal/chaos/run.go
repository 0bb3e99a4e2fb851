package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/report"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Times between two looks at the job, and between two of one that is not back from a fault;
// and for how long it is left alone when it is.
const (
	lookEvery        = 250 * time.Millisecond
	lookCloselyEvery = 100 * time.Millisecond
	rest             = time.Second
)

// drill is one run. It is owned by one goroutine.
type drill struct {
	*config

	plan     plan.Plan
	rec      report.Recorder
	progress io.Writer
	next     int // the next fault's number
	under    []*underWay
	back     time.Time // when the job was back from the last fault
	events   map[eventKey]api.Event
	killed   map[string]place // servers of the lighthouse, see site

	overview api.Overview // of the last look
	job      api.Job
	unseen   string // why the last look failed, or ""
}

// eventKey is an event; another leader may give a number again.
type eventKey struct{ seq, atMs int64 }

// underWay is a fault that the job is not back from, or that lasts.
type underWay struct {
	outage  *report.Outage
	done    injected
	until   time.Time // when what lasts ends
	ended   bool
	resumed bool // that was told
}

// run breaks the job, and prints the report. It returns an error, too, when the report
// shows something wrong.
func run(ctx context.Context, c *config, stdout, stderr io.Writer) error {
	r, err := c.preflight(ctx)
	if err != nil {
		return err
	}
	if c.dryRun {
		return c.foresee(r, stdout)
	}
	unwritable := c.tryDrawing()
	if unwritable != nil && c.drawing {
		return unwritable
	}
	d := &drill{config: c, plan: c.plan(r.kinds), progress: stdout, next: 1, events: make(map[eventKey]api.Event), killed: make(map[string]place)}
	if c.out.JSON() {
		d.progress = stderr
	}
	d.rec = report.Recorder{Bound: c.stallAfter, Began: time.Now()}
	for _, why := range r.left {
		d.say("left out %s", why)
	}
	if unwritable != nil {
		c.svg = ""
		d.say("there will be no drawing: %v", unwritable)
	}
	d.say("job %s: a fault every %v for %v, Ctrl-C ends it", c.job, c.every, c.duration)
	ended, why := d.loop(ctx)
	d.endAll()
	d.collect(context.WithoutCancel(ctx)) // each question has its own timeout
	rep := d.rec.Of(report.Result{Job: c.job, Seed: c.seed, Ended: ended, Why: why, At: time.Now(), Events: d.told()})
	return errors.Join(d.tell(rep, stdout), contextEnd(ctx, ended))
}

// contextEnd is the error of a run that was interrupted.
func contextEnd(ctx context.Context, ended string) error {
	if ended == report.EndedInterrupted {
		return context.Cause(ctx)
	}
	return nil
}

// loop goes on until the run is over, and says how it ended, and why.
func (d *drill) loop(ctx context.Context) (ended, why string) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		seen := d.see(ctx)
		d.finishSome(time.Now())
		d.follow(ctx)
		now := time.Now()
		over := now.Sub(d.rec.Began) >= d.duration
		switch {
		case ctx.Err() != nil:
			return report.EndedInterrupted, ""
		case seen && d.job.State == "finished":
			return report.EndedFinished, ""
		case d.rec.Stalled(now):
			return d.stalled()
		case over && len(d.under) == 0:
			return report.EndedDuration, ""
		case seen && !over && d.due(now):
			d.fault(ctx)
		}
		again.Reset(d.pause())
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// pause is the time until the next look.
func (d *drill) pause() time.Duration {
	if len(d.under) > 0 {
		return lookCloselyEvery
	}
	return lookEvery
}

// see looks at the job, and tells whether it was seen.
func (d *drill) see(ctx context.Context) bool {
	asked := time.Now()
	o, job, err := d.look(ctx)
	if err != nil {
		if ctx.Err() == nil && err.Error() != d.unseen {
			d.unseen = err.Error()
			d.say("the job cannot be seen: %s", cli.Plain(d.unseen))
		}
		return false
	}
	if d.unseen != "" {
		d.unseen = ""
		d.say("the job is seen again")
	}
	now := time.Now()
	d.overview, d.job = o, job
	l := report.Look{
		At: now, Step: job.MaxStep, Quorum: job.QuorumID, Stands: job.Stands,
		Ahead: time.UnixMilli(o.NowMs).Sub(asked.Add(now.Sub(asked) / 2)),
	}
	for _, r := range job.Replicas {
		if trains(r) {
			l.Trains = append(l.Trains, r.ReplicaID)
			l.Committed = max(l.Committed, r.StepQuorum)
		}
	}
	d.rec.Look(l)
	return true
}

// due tells whether the next fault may come now.
func (d *drill) due(now time.Time) bool {
	if !d.job.Stands || d.job.State != "training" || !d.overlap && len(d.under) > 0 {
		return false
	}
	d.pass(now.Sub(d.rec.Began))
	return now.Sub(d.rec.Began) >= d.plan.At(d.next) && (d.overlap || now.Sub(d.back) >= rest)
}

// pass leaves out the faults whose time has passed while the job was not back.
func (d *drill) pass(now time.Duration) {
	next := d.plan.Pass(d.next, now, max(2*rest, d.every/4))
	if n := next - d.next; n > 0 {
		d.say("%s left out, from fault %d on: the time passed while the job was not back", cli.Plural(n, "fault"), d.next)
	}
	d.next = next
}

// fault does the next fault, or notes why not.
func (d *drill) fault(ctx context.Context) {
	number := d.next
	d.next++
	skip := func(why string) {
		d.say("no fault %d: %s", number, why)
		d.rec.Skips = append(d.rec.Skips, report.Skip{AtMs: time.Now().UnixMilli(), Number: number, Why: why})
	}
	s, err := d.survey(ctx, d.overview, d.job, slices.Contains(d.plan.Kinds, plan.Lighthouse))
	if err != nil {
		skip(err.Error())
		return
	}
	s.killed = d.killed
	w := d.world(s, d.job, d.busy())
	w.Disk = w.Disk && !d.lasts(plan.Disk)
	f, err := d.plan.Next(number, w)
	if err != nil {
		skip(err.Error())
		return
	}
	done, err := d.inject(ctx, s, f)
	if err != nil {
		skip(fmt.Sprintf("%s: %v", connect.Named(f.String()), err))
		return
	}
	if f.Leader == plan.Killed {
		d.killed[s.led] = s.leader
	}
	d.say("fault %d: %s: %s", f.Number, connect.Named(f.String()), done.how)
	o := d.rec.Fault(f, done.how, done.at)
	d.under = append(d.under, &underWay{outage: o, done: done, until: done.at.Add(f.For)})
}

// busy are the replicas with which a fault is under way.
func (d *drill) busy() (ids []string) {
	for _, u := range d.under {
		ids = append(ids, u.outage.Fault.Victim, u.outage.Fault.Peer)
	}
	return ids
}

// lasts tells whether a fault of a kind is not ended yet.
func (d *drill) lasts(k plan.Kind) bool {
	return slices.ContainsFunc(d.under, func(u *underWay) bool { return !u.ended && u.outage.Fault.Kind == k })
}

// finishSome ends what has lasted its time.
func (d *drill) finishSome(now time.Time) {
	for _, u := range d.under {
		if !u.ended && !now.Before(u.until) {
			d.finish(u)
		}
	}
}

func (d *drill) finish(u *underWay) {
	u.ended = true
	if err := u.done.finish(); err != nil {
		d.say("fault %d: %v", u.outage.Fault.Number, err)
	}
}

// endAll ends all that lasts.
func (d *drill) endAll() {
	for _, u := range d.under {
		if !u.ended {
			d.finish(u)
		}
	}
}

// follow tells how the job gets over faults, and forgets those that it is back from.
func (d *drill) follow(ctx context.Context) {
	closed := false
	d.under = slices.DeleteFunc(d.under, func(u *underWay) bool {
		o := u.outage
		if !u.resumed && !o.Resumed.IsZero() {
			u.resumed = true
			d.say("fault %d: a step was committed %v after it", o.Fault.Number, o.Resumed.Sub(o.At).Round(time.Millisecond))
		}
		if o.Open() || !u.ended {
			return false
		}
		closed = true
		switch {
		case o.Resumed.IsZero():
			d.say("fault %d: the job goes on as if nothing had been", o.Fault.Number)
		case o.Late.IsZero():
			d.say("fault %d: as many replicas train as before, %v after it", o.Fault.Number, o.Over.Sub(o.At).Round(time.Millisecond))
		default:
			d.say("fault %d: %v after it fewer replicas train than before", o.Fault.Number, o.Late.Sub(o.At).Round(time.Second))
		}
		return true
	})
	if closed {
		d.back = time.Now()
		d.collect(ctx)
	}
}

// collect reads what the lighthouse tells, which it keeps the newest thousand of.
func (d *drill) collect(ctx context.Context) {
	events, err := d.Events(ctx, d.config.job)
	if err != nil {
		if ctx.Err() == nil {
			d.say("what the lighthouse tells cannot be read: %s", cli.Plain(err.Error()))
		}
		return
	}
	for _, e := range events {
		if e.Kind == "formed" || e.Kind == "resumed" { // the rest tells no change of the quorum
			d.events[eventKey{e.Seq, e.AtMs}] = e
		}
	}
}

// told are the events, oldest first.
func (d *drill) told() []api.Event {
	var all []api.Event
	for _, e := range d.events {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b api.Event) int {
		if a.AtMs != b.AtMs {
			return int(a.AtMs - b.AtMs)
		}
		return int(a.Seq - b.Seq)
	})
	return all
}

// stalled says what the run ends with when the job commits no more.
func (d *drill) stalled() (ended, why string) {
	after := ""
	if n := len(d.rec.Outages); n > 0 {
		f := d.rec.Outages[n-1].Fault
		after = fmt.Sprintf(" after fault %d, %s", f.Number, connect.Named(f.String()))
	}
	why = fmt.Sprintf("job %s committed no step for %v%s", d.config.job, d.stallAfter, after)
	switch {
	case d.unseen != "":
		return report.EndedStall, why + ", nor could it be seen: " + cli.Plain(d.unseen)
	case d.job.State == "idle":
		return report.EndedFailed, why + ": no replica is there; start them again"
	case d.job.Stands:
		return report.EndedStall, fmt.Sprintf("%s, though its quorum stands; see skerry why --job %s", why, d.config.job)
	}
	return report.EndedStall, fmt.Sprintf("%s, it is %s: %s; see skerry why --job %s", why, d.job.State, connect.Named(d.job.Reason), d.config.job)
}

// say writes a line of progress.
func (d *drill) say(format string, args ...any) {
	fmt.Fprintf(d.progress, "%s %s\n", time.Now().Format("15:04:05.000"), printable.Line(fmt.Sprintf(format, args...)))
}

// tell prints the report and writes the drawing.
func (d *drill) tell(rep report.Report, stdout io.Writer) error {
	err := d.out.Print(stdout, rep, rep.Write)
	if d.svg != "" {
		if werr := os.WriteFile(d.svg, []byte(rep.SVG()), 0o644); werr != nil { //nolint:gosec // it is for everyone
			err = errors.Join(err, fmt.Errorf("--svg: %w", werr))
		} else {
			d.say("drawn in %s", d.svg)
		}
	}
	if trouble := rep.Trouble(); trouble != "" {
		err = errors.Join(err, errors.New(trouble))
	}
	return err
}
