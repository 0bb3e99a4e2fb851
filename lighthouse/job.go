package lighthouse

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// doubtAfter is how late a wake-up must be for this process to doubt itself: it
// was descheduled, and what it did not hear meanwhile is nobody's silence.
const doubtAfter = 150 * time.Millisecond

// eventsKept is how many events a job keeps for the status page.
const eventsKept = 200

// job is the shell around one job's machine. Its goroutine (run) owns every
// field below calls; everybody else goes through do. It holds no rule.
type job struct {
	reign *reign
	name  string
	log   zerolog.Logger
	began int64 // Unix milliseconds: where the ids of a job start that has no ledger yet
	calls chan func(now time.Time)
	ended chan struct{} // closed when run has ended

	machine  *quorum.Machine
	sessions map[quorum.ReplicaID]*session
	askers   map[quorum.ReplicaID][]*asker // calls of torchft's clients, by who waits
	number   uint64                        // of the newest join of a torchft client
	due      time.Time                     // when run means to wake; zero: no timer
	broken   error                         // the ledger could not be written: the machine is void
	events   []timedEvent                  // the newest eventsKept
	reason   string                        // the last one logged
}

// timedEvent is an event with the time that pages show.
type timedEvent struct {
	AtMs int64  `json:"at_ms"`
	Text string `json:"text"`
}

// newJob rebuilds a job from the ledger, or begins it for a client of that
// kind. The caller runs it.
func newJob(r *reign, name string, kind quorum.ClientKind) (*job, error) {
	s := r.server
	j := &job{
		reign: r, name: name, log: s.log.With().Str(logkey.Job, name).Logger(), began: time.Now().UnixMilli(),
		calls: make(chan func(time.Time)), ended: make(chan struct{}),
		sessions: make(map[quorum.ReplicaID]*session),
		askers:   make(map[quorum.ReplicaID][]*asker),
		number:   uint64(time.Now().UnixMicro()), // above every one of an earlier reign
	}
	l := s.ledger.state.job(name, j.began)
	if l.Client != quorum.KindUnset {
		kind = l.Client
	}
	rules := s.rules(kind)
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	j.machine = quorum.New(time.Now(), rules, l)
	return j, nil
}

// rules are the server's own for a kind of client.
func (s *Server) rules(kind quorum.ClientKind) quorum.Config {
	c := s.cfg.Rules
	if kind == quorum.KindTorchft {
		c.HeartbeatTimeout = s.cfg.TorchftHeartbeatTimeout
		if c.StuckAfter > 0 {
			c.StuckAfter = max(c.StuckAfter, c.HeartbeatTimeout)
		}
	}
	return c
}

// run is the job's goroutine: inputs come as calls, time comes as the
// machine's own wake-ups, and after each it carries out what the rules say.
// It ends with ctx, or when the ledger cannot be written.
func (j *job) run(ctx context.Context) {
	defer close(j.ended)
	defer j.dismiss()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		j.step(timer)
		select {
		case <-ctx.Done():
			return
		case f := <-j.calls:
			f(j.now())
			j.drainCalls()
		case <-timer.C:
			j.machine.Advance(j.now())
		}
	}
}

// maxBatch bounds how many inputs are taken between two decisions.
const maxBatch = 256

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
// was descheduled, and says so first.
func (j *job) now() time.Time {
	now := time.Now()
	if !j.due.IsZero() && now.Sub(j.due) > doubtAfter {
		j.machine.Doubt(now, now.Sub(j.due))
		j.log.Warn().Dur(logkey.ElapsedMs, now.Sub(j.due)).Msg("woke late, doubting own view")
		j.due = time.Time{}
	}
	return now
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

// step decides and forms until there is nothing to form, pushes what the rules
// want pushed, and sets the timer.
func (j *job) step(timer *time.Timer) {
	for j.broken == nil {
		began := time.Now()
		d := j.machine.Decide(began)
		j.push()
		j.reign.server.metrics.decided(time.Since(began))
		j.logReason(d)
		if !d.Ready || !j.form(d) {
			break
		}
	}
	j.push()
	j.due = time.Time{}
	timer.Stop()
	if j.broken != nil {
		j.dismiss()
		j.rebuild()
	}
	now := time.Now()
	if wake := j.machine.Wake(now); !wake.IsZero() {
		j.due = wake
		timer.Reset(max(wake.Sub(now), 0))
	}
}

// form makes a decision so: written to the ledger before anybody is told, or,
// when nothing changed, confirmed by a check of leadership begun after the
// decision.
func (j *job) form(d quorum.Decision) bool {
	s := j.reign.server
	token, created := d.Quorum.Token, d.Quorum.CreatedMs
	var err error
	if d.Changed {
		if token == (quorum.Token{}) {
			_, _ = rand.Read(token[:]) // never fails, as its documentation says
		}
		if created == 0 {
			created = time.Now().UnixMilli()
		}
		formed := d.Command(j.reign.term, token, created)
		err = s.ledger.apply(command{Kind: commandFormed, Job: j.name, UnixMs: j.began, Formed: &formed})
		s.metrics.applied(err)
	} else {
		err = s.ledger.verify(j.reign.term)
	}
	if err != nil {
		j.log.Warn().Err(err).Msg("quorum not formed")
		j.broken = err
		return false
	}
	q := j.machine.Form(time.Now(), d, token, created)
	if d.Changed {
		s.metrics.formed(j.name, q)
		j.logFormed(q)
	}
	j.answer(q, d.Answers)
	return true
}

// answer tells everybody whose join the quorum answers.
func (j *job) answer(q quorum.Quorum, answers []quorum.Answered) {
	shared := &answerOnce{q: q}
	for _, a := range answers {
		if s := j.sessions[a.ReplicaID]; s != nil {
			s.send(shared.down(a.Number))
		}
		j.answerAskers(a, shared)
	}
}

// push sends the machine's notices and keeps its events.
func (j *job) push() {
	for _, n := range j.machine.Notices() {
		down := wire.NoticeToProto(n)
		for _, id := range n.To {
			if s := j.sessions[id]; s != nil {
				s.send(down)
			}
			if n.Kind == quorum.NoticeRefused || n.Kind == quorum.NoticeEvict {
				j.refuseAskers(id, quorum.ErrEvicted)
			}
		}
		j.reign.server.metrics.pushed(n.Kind, len(n.To))
	}
	for _, e := range j.machine.Events() {
		text := e.String()
		j.log.Debug().Str(logkey.ReplicaID, string(e.ReplicaID)).Int64(logkey.QuorumID, e.QuorumID).
			Str("event", text).Msg("rules noted an event")
		if len(j.events) == eventsKept {
			j.events = append(j.events[:0], j.events[1:]...)
		}
		j.events = append(j.events, timedEvent{AtMs: time.Now().UnixMilli(), Text: text})
	}
}

// logReason logs why there is no next quorum, when that changes.
func (j *job) logReason(d quorum.Decision) {
	if text := d.Reason.String(); !d.Ready && text != j.reason {
		j.reason = text
		j.log.Debug().Str(logkey.Reason, text).Msg("no quorum yet")
	}
}

func (j *job) logFormed(q quorum.Quorum) {
	ids := make([]string, len(q.Members))
	for i, m := range q.Members {
		ids[i] = string(m.ReplicaID)
	}
	j.log.Info().Int64(logkey.QuorumID, q.ID).Int64(logkey.Round, q.Round).Strs(logkey.Members, ids).
		Int("participants", len(q.Participants)).Str(logkey.Reason, q.Reason).Msg("quorum formed")
	j.reason = ""
}

// rebuild starts again from the ledger, after a command whose outcome is
// unknown. Everybody has been dismissed and will come again.
func (j *job) rebuild() {
	s := j.reign.server
	l := s.ledger.state.job(j.name, j.began)
	j.machine = quorum.New(time.Now(), j.machine.Config(), l)
	if !errors.Is(j.broken, errNotLeader) {
		j.broken = nil // else the reign is about to end, and nothing is decided until then
	}
}

// dismiss ends all sessions and calls without a word to the rules; their
// clients come again, here or to another leader.
func (j *job) dismiss() {
	for id, s := range j.sessions {
		s.end(errNotLeader)
		delete(j.sessions, id)
	}
	for id := range j.askers {
		j.refuseAskers(id, errNotLeader)
	}
}
