package lighthouse

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// doubtAfter is how late a turn must be for this process to doubt itself: it
// was descheduled, and what it did not hear meanwhile is nobody's silence.
const doubtAfter = 150 * time.Millisecond

// eventsKept is how many events a job keeps for the status page.
const eventsKept = 200

// maxBatch bounds how many inputs are taken between two decisions.
const maxBatch = 256

// job is the shell around one job's machine. Its goroutine (run) owns every
// field below ended; everybody else goes through do. It holds no rule.
type job struct {
	reign *reign
	name  string
	log   zerolog.Logger
	began int64 // Unix milliseconds: where the ids of a job start that has no ledger yet
	calls chan func(now time.Time)
	ended chan struct{} // closed when run has ended

	machine  *quorum.Machine
	kind     quorum.ClientKind // of its clients, as far as known
	rules    quorum.Config     // in force, before scale stretches them
	own      bool              // rules are the job's own, by an operator's wish
	scale    int               // by how much beats, and what waits for them, are stretched
	scaled   time.Time         // when scale last changed
	told     wire.Timing       // what its sessions know of that
	sessions map[quorum.ReplicaID]*session
	askers   map[quorum.ReplicaID][]*asker // calls of torchft's clients, by who waits
	number   uint64                        // of the newest join of a torchft client
	turned   time.Time                     // when run had its last turn
	due      time.Time                     // when run means to wake; zero: no timer
	broken   error                         // the ledger could not be written: the machine is void
	events   []Event                       // the newest eventsKept
	reason   string                        // the last one logged
}

// Event is what the rules noted, with the time that pages show.
type Event struct {
	AtMs int64  `json:"at_ms"`
	Text string `json:"text"`
}

// newJob rebuilds a job from the ledger, or begins it for a client of that
// kind. The caller runs it.
func newJob(r *reign, name string, kind quorum.ClientKind) (*job, error) {
	now := time.Now()
	j := &job{
		reign: r, name: name, kind: kind, began: now.UnixMilli(),
		log:   r.server.log.With().Str(logkey.Job, name).Logger(),
		calls: make(chan func(time.Time)), ended: make(chan struct{}),
		sessions: make(map[quorum.ReplicaID]*session),
		askers:   make(map[quorum.ReplicaID][]*asker),
		number:   uint64(now.UnixMicro()), // above every one of an earlier reign
	}
	return j, j.restart()
}

// restart makes the machine anew from the ledger.
func (j *job) restart() error {
	l := j.reign.server.ledger.state.job(j.name, j.began)
	if l.Client != quorum.KindUnset {
		j.kind = l.Client
	}
	j.rules, j.own, j.scale = j.reign.server.rules(j.kind), l.Config != nil, 1
	if j.own {
		j.rules = *l.Config
	}
	if err := j.rules.Validate(); err != nil {
		return fmt.Errorf("rules of job %s: %w", j.name, err)
	}
	j.turned, j.due = time.Now(), time.Time{}
	j.machine = quorum.New(j.turned, j.rules, l)
	j.told = j.timing()
	return nil
}

// run is the job's goroutine: inputs come as calls, time comes as the
// machine's own wake-ups, and after each it carries out what the rules say.
// It ends with ctx.
func (j *job) run(ctx context.Context) {
	defer close(j.ended)
	defer j.dismiss(errNotLeader)
	timer := time.NewTimer(0) // a rebuilt machine may have something to wait for
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-j.calls:
			f(j.now())
			j.drainCalls()
		case <-timer.C:
			// What was said while this goroutine was late is heard before
			// anybody's silence is judged.
			j.now()
			j.drainCalls()
			j.machine.Advance(j.now())
		}
		j.settle()
		timer.Stop()
		if !j.due.IsZero() {
			timer.Reset(max(time.Until(j.due), 0))
		}
	}
}

// drainCalls takes the inputs that wait already, so that one decision serves
// them all.
func (j *job) drainCalls() {
	for range maxBatch {
		select {
		case f := <-j.calls:
			f(j.now())
		default:
			return
		}
	}
}

// now is the time for the next input. If a wake-up is overdue, this process
// was descheduled, nobody knows since when in its last pause: it heard nothing
// since its last turn, and holds that against nobody.
func (j *job) now() time.Time {
	now := time.Now()
	if !j.due.IsZero() && now.Sub(j.due) > doubtAfter {
		j.doubt(now)
	}
	j.due = time.Time{}
	j.turned = now
	return now
}

// doubt tells the machine that nothing could be heard since the last turn.
func (j *job) doubt(now time.Time) {
	late := now.Sub(j.turned)
	j.machine.Doubt(now, late)
	j.turned = now
	j.log.Warn().Dur(logkey.ElapsedMs, late).Msg("own view doubted after a stall")
}

// do runs f on the job's goroutine and returns when it has run. It fails when
// ctx ends first or the reign has ended.
func (j *job) do(ctx context.Context, f func(now time.Time)) error {
	ran := make(chan struct{})
	call := func(now time.Time) {
		f(now)
		close(ran)
	}
	select {
	case j.calls <- call:
		<-ran
		return nil
	case <-j.ended:
		return errNotLeader
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
