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
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/lighthouse/internal/facts"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
	"github.com/skerry-ft/skerry/quorum/story"
)

// idleLooks is how often a leader looks for jobs to forget. A forgotten job costs its
// memory for so much longer.
const idleLooks = time.Minute

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
	formed, highest := l.ledger.Has(j.name), l.highest(j)
	var idle bool
	err := j.do(ctx, func(now time.Time) { idle = j.idle.Forget(now, j.inUse(now), formed) })
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
	return len(j.sessions) > 0 || len(j.askers) > 0 || j.machine.Status(now).State.InUse()
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
	if l.jobs[j.name] == j { // who comes by its name from here on begins anew
		delete(l.jobs, j.name)
		s.metrics.Forget(j.name)
		l.feed.Forget(j.name)
	}
	l.mu.Unlock()
	j.stop()
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
	return facts.Info(j.name, j.machine.Status(now), wire.RulesToProto(j.rules.Config(), j.rules.Own()))
}

// KillReplica implements skerrypb.LighthouseServer.
func (l *lighthouseService) KillReplica(ctx context.Context, req *skerrypb.KillReplicaRequest) (*skerrypb.KillReplicaResponse, error) {
	id, err := wire.CheckKnownID(req.GetReplicaId())
	if err == nil {
		err = behind{l.server}.Kill(ctx, req.GetJob(), id, l.server.orderOf(ctx, skerrypb.Lighthouse_KillReplica_FullMethodName, req))
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
	a := access.AskerOf(ctx, l.server.guard, skerrypb.Lighthouse_Configure_FullMethodName, req)
	rules, err := l.server.configure(ctx, req.GetJob(), wanted, web.Order{By: a.By, From: a.From})
	return &skerrypb.ConfigureResponse{Rules: wire.RulesToProto(rules.Config(), rules.Own())}, wire.StatusError(err)
}

// configure changes the rules of a job, and returns those in force.
func (s *Server) configure(ctx context.Context, name string, wanted wire.ConfigChange, o web.Order) (shell.JobRules, error) {
	var rules shell.JobRules
	err := s.apply(ctx, name, change{
		rules: func(j *job, now time.Time) (c cluster.Command, err error) {
			if rules, c, err = j.changed(wanted); err != nil {
				return cluster.Command{}, err
			}
			j.leadership.feed.Ask(j.name, now.UnixMilli(), story.Configured, "", o)
			return c, j.machine.Configure(now, rules.InForce())
		},
		done: func(j *job) { j.rules = rules },
	})
	return rules, err
}

// changed makes the rules that an operator wants, and the command for them.
func (j *job) changed(wanted wire.ConfigChange) (shell.JobRules, cluster.Command, error) {
	rules := j.rules
	if wanted.Reset {
		rules = rules.Reset()
		if wanted == (wire.ConfigChange{Reset: true}) {
			return rules, cluster.Command{Kind: cluster.CommandUnconfigure}, nil
		}
	}
	rules, err := rules.Set(wanted.Apply(rules.Config()), wanted.SuspectAfter != nil, wanted.StuckAfter != nil)
	own := rules.Config()
	if most := j.leadership.server.cfg.MaxReplicasPerJob; err == nil && own.MinReplicas > most {
		err = fmt.Errorf("%w: MinReplicas = %d, want at most MaxReplicasPerJob = %d (--max-replicas-per-job)",
			quorum.ErrInvalid, own.MinReplicas, most)
	}
	return rules, cluster.Command{Kind: cluster.CommandConfigure, Config: &own}, err
}

// stop ends a job that was forgotten, and waits.
func (j *job) stop() {
	j.cancel(errors.New("job forgotten"))
	<-j.ended
}
