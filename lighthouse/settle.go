package lighthouse

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// maxForms bounds the quorums that one turn of a job forms. The rules form one,
// or two when an answer is repeated first; a bound keeps a fault in them from
// stopping all else.
const maxForms = 8

// settle carries out what the rules say after the last inputs: it pushes their
// notices, decides, forms, and finds when to wake.
func (j *job) settle() {
	j.retime()
	for range maxForms {
		if j.broken != nil {
			break
		}
		began := time.Now()
		d := j.machine.Decide(began)
		j.reign.server.metrics.decided(time.Since(began))
		j.push()
		j.logReason(d)
		if !d.Ready || !j.form(d) {
			break
		}
	}
	if j.broken != nil {
		j.rebuild()
	}
	j.push()
	j.due = j.machine.Wake(time.Now())
}

// form makes a decision so: written to the ledger before anybody is told, or,
// when nothing changed, confirmed by a check of leadership begun after the
// decision.
func (j *job) form(d quorum.Decision) bool {
	s := j.reign.server
	token, created := d.Quorum.Token, d.Quorum.CreatedMs
	began := time.Now()
	var err error
	if d.Changed {
		if token == (quorum.Token{}) {
			_, _ = rand.Read(token[:]) // never fails, as its documentation says
		}
		if created == 0 {
			created = began.UnixMilli()
		}
		formed := d.Command(j.reign.term, token, created)
		err = s.ledger.apply(command{Kind: commandFormed, Job: j.name, UnixMs: j.began, Formed: &formed})
		s.metrics.applied(time.Since(began), err)
	} else {
		err = errors.Join(s.ledger.verify(j.reign.term), s.ledger.state.newest(j.name, d.Quorum))
	}
	if err != nil {
		j.broken = err
		return false
	}
	now := time.Now()
	if now.Sub(began) > doubtAfter {
		j.doubt(now) // a slow disk or a slow follower is nobody's silence
	}
	q := j.machine.Form(now, d, token, created)
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

// push sends the machine's notices, and keeps and logs its events.
func (j *job) push() {
	for _, n := range j.machine.Notices() {
		down := wire.NoticeToProto(n)
		for _, id := range n.To {
			if s := j.sessions[id]; s != nil {
				s.send(down)
			}
		}
		j.reign.server.metrics.pushed(n.Kind, len(n.To))
	}
	for _, e := range j.machine.Events() {
		line := j.log.WithLevel(eventLevel(e.Kind)).Int64(logkey.QuorumID, e.QuorumID)
		if e.ReplicaID != "" { // not every event is about one replica
			line.Str(logkey.ReplicaID, string(e.ReplicaID))
		}
		if e.Text != "" {
			line.Str(logkey.Reason, e.Text)
		}
		line.Msg(e.Kind.String())
		if len(j.events) == eventsKept {
			j.events = append(j.events[:0], j.events[1:]...)
		}
		j.events = append(j.events, Event{AtMs: time.Now().UnixMilli(), Text: e.String()})
	}
}

// eventLevel says how loud an event is in the log: what belongs on a timeline is
// info, what a person should know of is a warning, a broken promise an error.
func eventLevel(kind quorum.EventKind) zerolog.Level {
	switch kind {
	case quorum.EventDiverged:
		return zerolog.ErrorLevel
	case quorum.EventPositionFell, quorum.EventStuck, quorum.EventApart:
		return zerolog.WarnLevel
	case quorum.EventSuspect, quorum.EventCleared, quorum.EventLost, quorum.EventReturned, quorum.EventSuperseded,
		quorum.EventLeft, quorum.EventFell, quorum.EventSettled, quorum.EventRestored, quorum.EventDraining,
		quorum.EventEvicted, quorum.EventConfigured:
		return zerolog.InfoLevel
	}
	return zerolog.DebugLevel
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

// rebuild starts again from the ledger, after a command whose outcome may be
// unknown here. Everybody is dismissed and will come again. When the leadership
// is lost, the reign is about to end, and nothing is decided until then; any
// other error means that the command did not take effect, so the ledger that
// is read here is the newest.
func (j *job) rebuild() {
	j.log.Warn().Err(j.broken).Msg("machine rebuilt from the ledger")
	j.push() // what happened before stays on the page
	why := errRestarted
	if errors.Is(j.broken, errNotLeader) {
		why = errNotLeader
	}
	j.dismiss(why)
	if err := j.restart(); err != nil {
		// The rules were valid when they were written, so this does not happen;
		// if it does, the job decides nothing until there is another leader.
		j.broken = err
		return
	}
	if !errors.Is(j.broken, errNotLeader) {
		j.broken = nil
	}
}
