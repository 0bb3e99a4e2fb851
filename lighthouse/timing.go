package lighthouse

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
)

// retime stretches the beat interval, and the timeouts that wait for beats,
// with the number of sessions, and tells the sessions what has changed.
func (j *job) retime() {
	now := time.Now()
	if j.rules.Retime(now, int(j.leadership.server.sessions.Load()), j.machine.Config()) {
		if err := j.machine.Configure(now, j.rules.InForce()); err != nil {
			j.log.Warn().Err(err).Msg("timeouts not stretched")
		}
	}
	timing := j.timing()
	if timing == j.timed {
		return
	}
	j.timed = timing
	j.machine.Beats(timing.BeatInterval)
	down := &skerrypb.Down{Message: &skerrypb.Down_Timing{Timing: wire.TimingToProto(timing)}}
	for _, session := range j.sessions {
		session.send(down)
	}
}

// timing is what sessions are told.
func (j *job) timing() wire.Timing {
	c := j.machine.Config()
	return wire.Timing{
		BeatInterval:     j.rules.BeatInterval(),
		HeartbeatTimeout: c.HeartbeatTimeout,
		JoinTimeout:      c.JoinTimeout,
		ServerBeat:       j.serverBeat(),
	}
}

// rules are the server's own.
func (s *Server) rules() shell.ServerRules {
	return shell.ServerRules{
		Rules: s.cfg.Rules, TorchftHeartbeatTimeout: s.cfg.TorchftHeartbeatTimeout, BeatInterval: s.cfg.BeatInterval,
	}
}

// joinedAs carries out that a join of that kind of client was taken.
func (j *job) joinedAs(now time.Time, kind quorum.ClientKind) {
	fixed, changed := j.rules.JoinedAs(kind)
	if fixed && kind == quorum.KindTorchft {
		for _, s := range j.sessions {
			s.refuse(0, fmt.Errorf("%w: torchft's", quorum.ErrKind)) // they never joined
		}
	}
	if !changed {
		return
	}
	if err := j.machine.Configure(now, j.rules.InForce()); err != nil {
		j.log.Warn().Err(err).Msg("rules not changed to those of the clients")
	}
}
