package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/quorum"
)

const (
	// emptyJobKept is how long a job is kept that never formed a quorum and has no
	// replica: somebody named it, and went.
	emptyJobKept = 2 * time.Minute

	// idleJobKept is how long the ledger of a job without replicas is kept, for
	// those who come to look at its history, and for its rules.
	idleJobKept = 7 * 24 * time.Hour

	// idleLooks is how often a leader looks for jobs to forget. A forgotten job
	// costs its memory for so much longer.
	idleLooks = time.Minute
)

// forgetIdle forgets jobs that nobody uses, so that names which clients made up
// do not fill the server. It ends with the leadership.
func (l *leadership) forgetIdle(ctx context.Context) {
	for {
		if backoff.Sleep(ctx, idleLooks) != nil {
			return
		}
		for _, j := range l.all() {
			if err := l.forgetIfIdle(ctx, j); err != nil && ctx.Err() == nil {
				j.log.Warn().Err(err).Msg("idle job kept")
			}
		}
	}
}

// forgetIfIdle forgets one job if nobody has used it for long enough.
func (l *leadership) forgetIfIdle(ctx context.Context, j *job) error {
	kept, highest := l.ledger.Has(j.name), l.highest(j)
	long := emptyJobKept
	if kept {
		long = idleJobKept
	}
	var idle bool
	err := j.do(ctx, func(now time.Time) {
		if j.inUse(now) {
			j.idleSince = time.Time{}
			return
		}
		if j.idleSince.IsZero() {
			j.idleSince = now
		}
		idle = now.Sub(j.idleSince) >= long
	})
	if err != nil || !idle {
		return err
	}
	return l.forget(j, highest)
}

// highest is the highest id of a job, as of now; at least 1.
func (l *leadership) highest(j *job) int64 {
	return max(l.ledger.Job(j.name, 0).HighestID, 1)
}

// inUse says whether anybody is there: a session, a call, or a replica that is
// not known to be gone. It runs on the job's goroutine.
func (j *job) inUse(now time.Time) bool {
	if len(j.sessions) > 0 || len(j.askers) > 0 {
		return true
	}
	for _, r := range j.machine.Status(now).Replicas {
		if r.State != quorum.StateLost && r.State != quorum.StateEvicted {
			return true
		}
	}
	return false
}

// forget takes a job out of the ledger and ends it, unless it has formed a quorum
// above highest: then somebody came. Whoever comes by its name later begins a new
// one, whose ids rise above all that there were.
func (l *leadership) forget(j *job, highest int64) error {
	s := l.server
	if l.ledger.Has(j.name) {
		if err := l.ledger.Apply(cluster.Command{Kind: cluster.CommandForget, Job: j.name, Highest: highest}); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if l.jobs[j.name] == j {
		delete(l.jobs, j.name)
	}
	l.mu.Unlock()
	j.stop()
	s.metrics.forget(j.name)
	j.log.Info().Msg("job forgotten")
	return nil
}

// errJobInUse refuses to delete a job that replicas use.
var errJobInUse = fmt.Errorf("%w: the job has replicas; drain or evict them first", quorum.ErrInvalid)

// DeleteJob implements skerrypb.LighthouseServer.
func (l *lighthouseService) DeleteJob(ctx context.Context, req *skerrypb.DeleteJobRequest) (*skerrypb.DeleteJobResponse, error) {
	j, err := l.server.existing(ctx, req.GetJob())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	var used bool
	highest := j.leadership.highest(j)
	err = j.do(ctx, func(now time.Time) { used = j.inUse(now) })
	if err == nil && used {
		err = errJobInUse
	}
	if err == nil {
		err = j.leadership.forget(j, highest)
	}
	return &skerrypb.DeleteJobResponse{}, wire.StatusError(err)
}

// Jobs implements skerrypb.LighthouseServer.
func (l *lighthouseService) Jobs(ctx context.Context, _ *skerrypb.JobsRequest) (*skerrypb.JobsResponse, error) {
	lead, err := l.server.leadership(ctx)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	resp := &skerrypb.JobsResponse{}
	for _, j := range lead.all() {
		var info *skerrypb.JobInfo
		if err := j.do(ctx, func(now time.Time) { info = j.info(now) }); err != nil {
			return nil, wire.StatusError(err)
		}
		resp.Jobs = append(resp.Jobs, info)
	}
	return resp, nil
}

// info is a job in a line. It runs on the job's goroutine.
func (j *job) info(now time.Time) *skerrypb.JobInfo {
	m := j.machine.Status(now)
	info := &skerrypb.JobInfo{
		Job: j.name, Client: m.Client.String(), Stands: m.Stands, Replicas: uint32(len(m.Replicas)),
		Rules: wire.RulesToProto(j.rules, j.own),
	}
	if m.Last != nil {
		info.QuorumId, info.Members = m.Last.ID, uint32(len(m.Last.Members))
	}
	for _, r := range m.Replicas {
		info.Step = max(info.Step, r.Position.Step, r.Beat.Position.Step)
	}
	return info
}

// KillReplica implements skerrypb.LighthouseServer.
func (l *lighthouseService) KillReplica(ctx context.Context, req *skerrypb.KillReplicaRequest) (*skerrypb.KillReplicaResponse, error) {
	id, err := wire.CheckReplicaID(req.GetReplicaId())
	if err == nil {
		err = l.server.kill(ctx, req.GetJob(), id, req.GetReason())
	}
	return &skerrypb.KillReplicaResponse{}, wire.StatusError(err)
}

// Configure implements skerrypb.LighthouseServer. The rules are checked as a
// whole, replicated, and told to the job's members: those for beats at once, and
// those for the membership as a change that is wanted.
func (l *lighthouseService) Configure(ctx context.Context, req *skerrypb.ConfigureRequest) (*skerrypb.ConfigureResponse, error) {
	wanted, err := wire.ConfigChangeFromProto(req)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	var rules quorum.Config
	var own bool
	err = l.server.change(ctx, req.GetJob(), wish{
		rules: func(j *job, now time.Time) (cluster.Command, error) {
			var c cluster.Command
			if rules, own, c, err = j.changed(wanted); err != nil {
				return cluster.Command{}, err
			}
			return c, j.machine.Configure(now, j.scale.Stretch(rules))
		},
		done: func(j *job) { j.rules, j.own = rules, own },
	})
	return &skerrypb.ConfigureResponse{Rules: wire.RulesToProto(rules, own)}, wire.StatusError(err)
}

// changed makes the rules that an operator wants, and the command for them.
// Times that follow from the heartbeat timeout follow it, unless they are named.
func (j *job) changed(wanted wire.ConfigChange) (quorum.Config, bool, cluster.Command, error) {
	base := j.rules
	if wanted.Reset {
		base = j.leadership.server.rules(j.kind)
		if wanted == (wire.ConfigChange{Reset: true}) {
			return base, false, cluster.Command{Kind: cluster.CommandUnconfigure}, nil
		}
	}
	rules := wanted.Apply(base)
	if suspect, stuck := wanted.Named(); !suspect || !stuck {
		fitted := rules.Fitting()
		if !suspect {
			rules.SuspectAfter = fitted.SuspectAfter
		}
		if !stuck {
			rules.StuckAfter = fitted.StuckAfter
		}
	}
	if err := rules.Validate(); err != nil {
		return rules, false, cluster.Command{}, fmt.Errorf("%w: %w", quorum.ErrInvalid, err)
	}
	if most := j.leadership.server.cfg.MaxReplicasPerJob; rules.MinReplicas > most {
		return rules, false, cluster.Command{}, fmt.Errorf("%w: MinReplicas = %d, want at most MaxReplicasPerJob = %d (--max-replicas-per-job)",
			quorum.ErrInvalid, rules.MinReplicas, most)
	}
	if rules.SuspectAfter < missedBeats*minTimeout {
		return rules, false, cluster.Command{}, fmt.Errorf("%w: SuspectAfter = %v, want at least %v: %d beats",
			quorum.ErrInvalid, rules.SuspectAfter, missedBeats*minTimeout, missedBeats)
	}
	return rules, true, cluster.Command{Kind: cluster.CommandConfigure, Config: &rules}, nil
}

// forget drops what is counted by a job's name.
func (m *metrics) forget(job string) {
	m.quorums.DeleteLabelValues(job)
	m.quorumID.DeleteLabelValues(job)
	m.members.DeleteLabelValues(job)
}

// stop ends a job that was forgotten, and waits.
func (j *job) stop() {
	j.cancel(errors.New("job forgotten"))
	<-j.ended
}
