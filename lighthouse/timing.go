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
	scale := beatScale(j.scale, int(s.sessions.Load()), j.interval())
	now := time.Now()
	if scale < j.scale {
		// Sessions still beat as slowly as they were told: timeouts shrink by
		// half at most, and not before everybody has heard of the last change.
		scale = j.scale
		if now.Sub(j.scaled) > j.machine.Config().HeartbeatTimeout {
			scale = j.scale / 2
		}
	}
	if scale != j.scale {
		j.scale, j.scaled = scale, now
		if err := j.machine.Configure(now, stretched(j.rules, scale)); err != nil {
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
		BeatInterval:     j.interval() * time.Duration(j.scale),
		HeartbeatTimeout: c.HeartbeatTimeout,
		JoinTimeout:      c.JoinTimeout,
		ServerBeat:       j.serverBeat(),
	}
}

// beatScale is the power of two by which the beat interval is stretched, so
// that the sum of all beats stays within MaxBeatsPerSecond. It falls only when
// a quarter of the sessions could come back, or it would flap at an edge.
func beatScale(scale, sessions int, interval time.Duration) int {
	beats := func(scale int) int {
		return int(time.Duration(sessions) * time.Second / (interval * time.Duration(scale)))
	}
	for beats(scale) > MaxBeatsPerSecond {
		scale *= 2
	}
	for scale > 1 && beats(scale/2) <= MaxBeatsPerSecond*3/4 {
		scale /= 2
	}
	return scale
}

// stretched is c with every timeout that waits for beats multiplied.
func stretched(c quorum.Config, scale int) quorum.Config {
	k := time.Duration(scale)
	c.HeartbeatTimeout *= k
	c.SuspectAfter *= k
	c.Grace *= k
	if c.StuckAfter > 0 {
		c.StuckAfter = max(c.StuckAfter, c.HeartbeatTimeout)
	}
	return c
}

// rules are the server's own for a kind of client.
func (s *Server) rules(kind quorum.ClientKind) quorum.Config {
	c := s.cfg.Rules
	if kind == quorum.KindTorchft {
		c.HeartbeatTimeout = s.cfg.TorchftHeartbeatTimeout
	}
	return fitting(c)
}

// fitting makes the times that follow from the heartbeat timeout fit it.
func fitting(c quorum.Config) quorum.Config {
	c.SuspectAfter = min(c.SuspectAfter, c.HeartbeatTimeout/2)
	if c.StuckAfter > 0 {
		c.StuckAfter = max(c.StuckAfter, c.HeartbeatTimeout)
	}
	return c
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
	if err := j.machine.Configure(now, stretched(j.rules, j.scale)); err != nil {
		j.log.Warn().Err(err).Msg("rules not changed to those of the clients")
	}
}
