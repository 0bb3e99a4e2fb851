package lighthouse

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// retime stretches the beat interval, and the timeouts that wait for beats,
// with the number of sessions, and tells the sessions what has changed.
func (j *job) retime() {
	s := j.leadership.server
	now := time.Now()
	scale := j.scale.Next(now, int(s.sessions.Load()), j.interval(), j.machine.Config())
	if scale.Factor() != j.scale.Factor() {
		j.scale = scale
		if err := j.machine.Configure(now, scale.Stretch(j.rules)); err != nil {
			j.log.Warn().Err(err).Msg("timeouts not stretched")
		}
	}
	timing := j.timing()
	if timing == j.timed {
		return
	}
	j.timed = timing
	down := &skerrypb.Down{Message: &skerrypb.Down_Timing{Timing: wire.TimingToProto(timing)}}
	for _, session := range j.sessions {
		session.send(down)
	}
}

// interval is the job's beat interval before it is stretched.
func (j *job) interval() time.Duration {
	return min(j.leadership.server.cfg.BeatInterval, j.rules.SuspectAfter/missedBeats)
}

// timing is what sessions are told.
func (j *job) timing() wire.Timing {
	c := j.machine.Config()
	return wire.Timing{
		BeatInterval:     j.interval() * time.Duration(j.scale.Factor()),
		HeartbeatTimeout: c.HeartbeatTimeout,
		JoinTimeout:      c.JoinTimeout,
		ServerBeat:       j.serverBeat(),
	}
}

// rules are the server's own for a kind of client.
func (s *Server) rules(kind quorum.ClientKind) quorum.Config {
	c := s.cfg.Rules
	if kind == quorum.KindTorchft {
		c.HeartbeatTimeout = s.cfg.TorchftHeartbeatTimeout
	}
	return c.Fitting()
}

// joinedAs notes that a join of that kind of client was taken, which fixes the
// job's kind. The job may have been begun by another kind, which never joined.
func (j *job) joinedAs(now time.Time, kind quorum.ClientKind) {
	if j.kind == kind {
		return
	}
	j.kind = kind
	if kind == quorum.KindTorchft {
		for _, s := range j.sessions {
			s.refuse(0, fmt.Errorf("%w: torchft's", quorum.ErrKind)) // they never joined
		}
	}
	if j.own {
		return
	}
	j.rules = j.leadership.server.rules(kind)
	if err := j.machine.Configure(now, j.scale.Stretch(j.rules)); err != nil {
		j.log.Warn().Err(err).Msg("rules not changed to those of the clients")
	}
}
