package shell

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

const (
	// missedBeats is how many beat intervals lie at least in the silence that makes a
	// replica suspect, so that four beats in a row may be missed.
	missedBeats = 5
	// serverBeatsPer is how many beats of a session lie between two of the server: a
	// client notices a server that hangs within a second, and a replica that hangs
	// within half of one.
	serverBeatsPer = 2
)

// ServerRules are what a lighthouse has for jobs that have no rules of their own.
type ServerRules struct {
	Rules                   quorum.Config // HeartbeatTimeout is for members that beat over sessions
	TorchftHeartbeatTimeout time.Duration // in its place where the members are torchft's clients
	BeatInterval            time.Duration // of a session, at most
}

// of returns the rules for a kind of client.
func (s ServerRules) of(kind quorum.ClientKind) quorum.Config {
	c := s.Rules
	if kind == quorum.KindTorchft {
		c.HeartbeatTimeout = s.TorchftHeartbeatTimeout
	}
	return fitted(c)
}

// JobRules are the rules of one job in force: its own, which an operator set and the
// ledger keeps, or the server's for its kind of client; and how far they are
// stretched. It is copied by value, and owned by one goroutine.
type JobRules struct {
	server ServerRules
	kind   quorum.ClientKind
	config quorum.Config // before it is stretched
	own    bool
	scale  beatScale
}

// NewJobRules makes the rules of a job whose clients are of a kind, as far as known.
// own are its own rules; nil: it has none.
func NewJobRules(server ServerRules, kind quorum.ClientKind, own *quorum.Config) JobRules {
	r := JobRules{server: server, kind: kind, config: server.of(kind), own: own != nil}
	if r.own {
		r.config = *own
	}
	return r
}

// Kind is the kind of the job's clients, as far as known.
func (r *JobRules) Kind() quorum.ClientKind { return r.kind }

// Config is the rules before they are stretched.
func (r *JobRules) Config() quorum.Config { return r.config }

// Own says that an operator set them for this job.
func (r *JobRules) Own() bool { return r.own }

// InForce is the rules for the job's [quorum.Machine].
func (r *JobRules) InForce() quorum.Config { return r.scale.stretch(r.config) }

// JoinedAs notes that a join of a kind of client was taken, which fixes the job's kind
// (PROTOCOL §1): clients of another kind may have named the job before. fixed says
// that this is news, and changed that the rules are other ones by it: an operator's
// stay.
func (r *JobRules) JoinedAs(kind quorum.ClientKind) (fixed, changed bool) {
	if r.kind == kind {
		return false, false
	}
	r.kind = kind
	// An operator's rules are for the job, of whichever kind its clients are.
	if !r.own {
		r.config = r.server.of(kind)
	}
	return true, !r.own
}

// Set returns the rules with c in place of those in force, as the job's own. Times that
// follow from the heartbeat timeout follow it, unless they were named. Errors: all that
// is wrong with them, with quorum.ErrInvalid. With the default rules a HeartbeatTimeout of 600 ms
// makes SuspectAfter 300 ms, and sessions beat each 60 ms.
func (r JobRules) Set(c quorum.Config, suspectNamed, stuckNamed bool) (JobRules, error) {
	fits := fitted(c)
	if !suspectNamed {
		c.SuspectAfter = fits.SuspectAfter
	}
	if !stuckNamed {
		c.StuckAfter = fits.StuckAfter
	}
	r.config, r.own = c, true
	if err := c.Validate(); err != nil {
		return r, fmt.Errorf("%w: %w", quorum.ErrInvalid, err)
	}
	// The beat interval follows from it (interval), and is a millisecond at least.
	if least := missedBeats * time.Millisecond; c.SuspectAfter < least {
		return r, fmt.Errorf("%w: SuspectAfter = %v, want at least %v: %d beats", quorum.ErrInvalid, c.SuspectAfter, least, missedBeats)
	}
	return r, nil
}

// Reset returns the rules of the server in place of those in force.
func (r JobRules) Reset() JobRules {
	r.config, r.own = r.server.of(r.kind), false
	return r
}

// Retime stretches the rules to so many sessions of all jobs, see beatScale.next; it
// says whether the rules in force are other ones by it. inForce are those of the job's
// Machine.
func (r *JobRules) Retime(now time.Time, sessions int, inForce quorum.Config) (changed bool) {
	before := r.scale.times()
	r.scale = r.scale.next(now, sessions, r.interval(), inForce)
	return r.scale.times() != before
}

// interval is how often a session beats before that is stretched.
func (r *JobRules) interval() time.Duration {
	return min(r.server.BeatInterval, r.config.SuspectAfter/missedBeats)
}

// BeatInterval is how often a session beats.
func (r *JobRules) BeatInterval() time.Duration {
	return r.interval() * time.Duration(r.scale.times())
}

// ServerBeat is how often a server with nothing to say beats over a session, where a
// replica could go to another server.
func (r *JobRules) ServerBeat() time.Duration { return serverBeatsPer * r.BeatInterval() }
