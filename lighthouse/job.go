package lighthouse

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/beatqueue"
	"github.com/skerry-ft/skerry/lighthouse/internal/joblog"
	"github.com/skerry-ft/skerry/lighthouse/internal/scaling"
	"github.com/skerry-ft/skerry/lighthouse/internal/steprate"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
)

// eventsKept is how many events a job keeps for the status page.
const eventsKept = 200

// maxBatch bounds how many inputs are taken between two decisions.
const maxBatch = 1_024

// quietTurn is how often the job looks at what quiet inputs came to: beats are
// applied, and decided upon, at most so often. They tell that nothing has
// changed; a death is found by their absence, which counts in longer times.
const quietTurn = 10 * time.Millisecond

// job is the shell around one job's machine. Its goroutine (run) owns every
// field below ended; everybody else goes through do. It holds no rule.
type job struct {
	leadership *leadership
	name       string
	log        zerolog.Logger
	began      int64 // Unix milliseconds: where the ids of a job start that has no ledger yet
	calls      chan call
	wrote      chan *write             // capacity 1: the outcome of the one write under way
	ended      chan struct{}           // closed when run has ended
	founder    shell.Founder           // set before run
	cancel     context.CancelCauseFunc // ends run
	beats      *beatqueue.Queue[*session]
	board      *scaling.Board // where launchers ask

	machine  *quorum.Machine
	rules    shell.JobRules
	idle     shell.Idle  // as of the last look for jobs to forget
	timed    wire.Timing // what its sessions know of its times
	sessions map[quorum.ReplicaID]*session
	askers   map[quorum.ReplicaID][]*asker // calls of torchft's clients, by who waits
	number   uint64                        // of the newest join of a torchft client
	turns    shell.Turns                   // of run
	wake     time.Time                     // when the machine is to be woken, as the last decision left it; zero: never
	look     time.Time                     // when quiet inputs are to be looked at; zero: there are none
	looked   time.Time                     // when they last were
	saves    saves
	writing  *write     // the decision that is being written; nil: none
	broken   error      // the ledger could not be written: the machine is not used any more
	events   []api.Note // what the rules noted: the newest eventsKept
	told     joblog.Log // of the same
	steps    steprate.Run
	ordinal  int64 // of the last quorum, among the job's; 0: not known
}

// newJob rebuilds a job from the ledger, or begins it for a client of that
// kind. The caller runs it.
func newJob(l *leadership, name string, kind quorum.ClientKind) (*job, error) {
	now := time.Now()
	j := &job{
		leadership: l, name: name, began: now.UnixMilli(),
		rules: shell.NewJobRules(l.server.rules(), kind, nil),
		log:   l.server.log.With().Str(logkey.Job, name).Logger(),
		calls: make(chan call), wrote: make(chan *write, 1), ended: make(chan struct{}),
		beats:    beatqueue.New[*session](),
		board:    scaling.New(func() *api.Wanted { return l.ledger.Wanted(name) }),
		sessions: make(map[quorum.ReplicaID]*session),
		askers:   make(map[quorum.ReplicaID][]*asker),
		number:   uint64(now.UnixMicro()), // above every one of an earlier leadership
	}
	earlier := l.ledger.Has(name)
	l.feed.Begin(name, l.ledger.Told(name), earlier)
	if err := j.restart(); err != nil {
		return nil, err
	}
	if earlier {
		l.feed.Led(name, now.UnixMilli(), l.term, l.server.address())
	}
	return j, nil
}

// restart makes the machine anew from the ledger.
func (j *job) restart() error {
	l := j.leadership.ledger.Job(j.name, j.began)
	j.rules = shell.NewJobRules(j.leadership.server.rules(), cmp.Or(l.Client, j.rules.Kind()), l.Config)
	rules := j.rules.InForce()
	if err := rules.Validate(); err != nil {
		return fmt.Errorf("rules of job %s: %w", j.name, err)
	}
	now := time.Now()
	j.turns = shell.NewTurns(now)
	j.writing = nil // its outcome is about a machine that is gone
	j.machine = quorum.New(now, rules, l)
	j.ordinal = j.leadership.ledger.Quorums(j.name)
	j.told = joblog.New(j.log, l.Last)
	j.leadership.server.metrics.Began(j.name, l.Last != nil)
	j.machine.Limit(j.leadership.server.cfg.MaxReplicasPerJob)
	j.timed = j.timing()
	j.machine.Beats(j.timed.BeatInterval)
	j.recallLeft(now)
	return nil
}

// call is an input for the job's goroutine.
type call struct {
	f func(now time.Time)
	// quiet says that it is no news by itself: what it came to may be looked at
	// a little later, with others.
	quiet bool
}

// run is the job's goroutine: inputs come as calls and beats, time comes as the
// machine's own wake-ups, and after each it carries out what the rules say. A
// write to the ledger runs beside it, so inputs are taken while raft works. It
// ends with ctx.
func (j *job) run(ctx context.Context) {
	defer close(j.ended)
	defer j.dismiss(cluster.ErrNotLeader)
	timer := time.NewTimer(0) // a rebuilt machine may have something to wait for
	defer timer.Stop()
	for {
		loud := false
		select {
		case <-ctx.Done():
			return
		case c := <-j.calls:
			j.take(c)
			loud = !c.quiet
			loud = j.drainCalls() || loud
		case <-j.beats.Ready():
			if j.looked.Add(quietTurn).After(time.Now()) {
				break // they are taken together, when it is time to look
			}
			j.takeBeats()
		case w := <-j.wrote:
			j.drainCalls()
			j.written(w)
			loud = true
		case <-timer.C:
			loud = j.turns.Overdue(time.Now())
			// What was said while this goroutine was late is heard before
			// anybody's silence is judged.
			j.now()
			loud = j.drainCalls() || loud
			j.machine.Advance(j.now())
		}
		j.afterTurn(loud)
		timer.Stop()
		if at := sooner(sooner(j.turns.Due, j.look), j.saves.after(j.looked.Add(quietTurn))); !at.IsZero() {
			timer.Reset(max(time.Until(at), 0))
		}
	}
}

// afterTurn decides on what came in, or notes when to do so.
func (j *job) afterTurn(loud bool) {
	now := time.Now()
	if !loud && now.Before(j.looked.Add(quietTurn)) {
		j.push()
		// Quiet inputs put deadlines off. A new one is further away than the next
		// look.
		j.turns.Due, j.look = j.wake, j.looked.Add(quietTurn)
		return
	}
	j.takeBeats()
	j.looked, j.look = now, time.Time{}
	j.settle()
}

// sooner is the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// take runs one input. Beats that came before it are heard before it.
func (j *job) take(c call) {
	j.takeBeats()
	c.f(j.now())
}

// drainCalls takes the inputs that wait already, so that one decision serves
// them all; it says whether any of them was loud.
func (j *job) drainCalls() (loud bool) {
	j.takeBeats()
	for range maxBatch {
		select {
		case c := <-j.calls:
			j.take(c)
			loud = loud || !c.quiet
		default:
			return loud
		}
	}
	return loud
}

// now is the time for the next input.
func (j *job) now() time.Time {
	now := time.Now()
	j.doubt(now, j.turns.Begin(now))
	return now
}

// doubt tells the machine for how long nothing could be heard, if that is so.
func (j *job) doubt(now time.Time, deaf time.Duration) {
	if deaf <= 0 {
		return
	}
	j.machine.Doubt(now, deaf)
	j.log.Warn().Dur(logkey.ElapsedMs, deaf).Msg("process stalled, silence in that time ignored")
}

// do runs f on the job's goroutine and returns when it has run. It fails when
// ctx ends first or the leadership has ended.
func (j *job) do(ctx context.Context, f func(now time.Time)) error {
	return j.call(ctx, f, false)
}

// note is do for what is no news by itself.
func (j *job) note(ctx context.Context, f func(now time.Time)) error {
	return j.call(ctx, f, true)
}

func (j *job) call(ctx context.Context, f func(now time.Time), quiet bool) error {
	ran := make(chan struct{})
	c := call{quiet: quiet, f: func(now time.Time) {
		f(now)
		close(ran)
	}}
	select {
	case j.calls <- c:
		<-ran
		return nil
	case <-j.ended:
		return cluster.ErrNotLeader
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dismiss ends all sessions and calls without a word to the rules; their
// clients come again, here or to another leader.
func (j *job) dismiss(why error) {
	for id, s := range j.sessions {
		s.end(why)
		delete(j.sessions, id)
	}
	for id := range j.askers {
		j.refuseAskers(id, why)
	}
}
