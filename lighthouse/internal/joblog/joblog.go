// Package joblog logs what the rules of one job note: each transition once, at a level that
// says whether a person should know of it, and so that the id of a quorum finds all of its
// end. It starts no goroutines; a Log is owned by the job's.
package joblog

import (
	"cmp"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

// Log is the log of one job.
type Log struct {
	to     zerolog.Logger
	reason string // why there is no quorum yet, as it was last logged
	last   int64  // id of the last quorum; 0: none
	after  int64  // id of the one before it; 0: none, or not known
}

// New makes the log of a job whose last quorum is last; nil: none.
func New(to zerolog.Logger, last *quorum.Quorum) Log {
	l := Log{to: to}
	if last != nil {
		l.last = last.ID
	}
	return l
}

// Event logs what the rules noted. Of what has a cause the line names the culprit, and
// of a first commit the quorum before, so that its id finds the whole story.
func (l *Log) Event(e quorum.Event) {
	line := l.to.WithLevel(eventLevel(e.Kind)).Int64(logkey.QuorumID, e.QuorumID)
	if id := cmp.Or(e.ReplicaID, e.Cause.Replica); id != "" { // not every event is about one replica
		line.Str(logkey.ReplicaID, string(id))
	}
	if e.Cause.Kind != quorum.CauseUnknown {
		line.Stringer(logkey.Cause, e.Cause.Kind)
	}
	if c := e.Change; c != nil && e.Kind == quorum.EventResumed {
		line.Int64(logkey.After, l.after).Dur("known_ms", c.Known).Dur("reformed_ms", c.Reformed).
			Dur("resumed_ms", c.Resumed).Dur("lost_ms", c.Lost)
	}
	if e.Text != "" {
		line.Str(logkey.Reason, e.Text)
	}
	line.Msg(e.Kind.String())
}

// eventLevel says how loud an event is in the log: what belongs on a timeline is
// info, what a person should know of is a warning, a broken promise an error.
func eventLevel(kind quorum.EventKind) zerolog.Level {
	switch kind {
	case quorum.EventDiverged:
		return zerolog.ErrorLevel
	case quorum.EventLost, quorum.EventPositionFell, quorum.EventStuck, quorum.EventApart, quorum.EventDoubted,
		quorum.EventRefused:
		return zerolog.WarnLevel
	case quorum.EventSuspect, quorum.EventCleared, quorum.EventReturned, quorum.EventSuperseded,
		quorum.EventLeft, quorum.EventFell, quorum.EventSettled, quorum.EventRestored, quorum.EventDraining, quorum.EventStays,
		quorum.EventEvicted, quorum.EventConfigured, quorum.EventMended, quorum.EventHealed, quorum.EventResumed,
		quorum.EventFinished:
		return zerolog.InfoLevel
	}
	return zerolog.DebugLevel
}

// Waits logs why there is no next quorum, when that changes.
func (l *Log) Waits(d quorum.Decision) {
	if text := d.Reason.String(); !d.Ready && text != l.reason {
		l.reason = text
		l.to.Debug().Str(logkey.Reason, text).Msg("no quorum yet")
	}
}

// maxLogged is how many members of a quorum the log names.
const maxLogged = 64

// Formed logs a quorum that was formed, and which one it comes after.
func (l *Log) Formed(q quorum.Quorum) {
	ids := make([]string, 0, maxLogged)
	for _, m := range q.Members[:min(len(q.Members), maxLogged)] {
		ids = append(ids, string(m.ReplicaID))
	}
	line := l.to.Info().Int64(logkey.QuorumID, q.ID).Int64(logkey.Round, q.Round)
	if l.last != 0 && l.last != q.ID {
		l.after = l.last
		line.Int64(logkey.After, l.after)
	}
	l.last = q.ID
	line.Strs(logkey.Members, ids).
		Int(logkey.WorldSize, len(q.Members)).Int("participants", len(q.Participants)).Str(logkey.Reason, q.Reason).Msg("quorum formed")
	l.reason = ""
}
