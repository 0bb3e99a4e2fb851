package lighthouse

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
)

// What /status.json has; package api says what it means.
type (
	Status        = api.Status
	JobStatus     = api.JobStatus
	ReplicaStatus = api.ReplicaStatus
	HistoryStatus = api.HistoryStatus
)

// newWeb is the server's HTTP side.
func (s *Server) newWeb() *web.Server {
	return web.New(web.Config{
		Guard: s.guard, Addr: s.Addr(), Named: s.named, Transport: s.transport, Metrics: s.metrics.Handler(),
		HelloTimeout: s.cfg.HelloTimeout, Sampled: s.sampled,
	}, behind{s}, behind{s})
}

// behind is the server as its HTTP side sees it.
type behind struct{ *Server }

// Healthy implements web.Lighthouse: without a leader standing quorums go on, but no new
// one is formed.
func (b behind) Healthy() bool {
	_, self, ok := b.cluster.Leader()
	return b.leading() != nil || ok && !self
}

// Route implements web.Lighthouse.
func (b behind) Route(ctx context.Context, hopped bool) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	to, err := b.route(ctx, wait{hopped: hopped})
	return to.leader, err
}

// Known implements web.Lighthouse.
func (b behind) Known(ctx context.Context, job string) (bool, error) {
	lead, err := b.leadership(ctx)
	if err != nil {
		return false, err
	}
	_, ok := lead.known(job)
	return ok, nil
}

// Drain implements web.Actions.
func (b behind) Drain(ctx context.Context, job string, id quorum.ReplicaID, reason string) error {
	return b.drain(ctx, job, id, reason)
}

// Evict implements web.Actions.
func (b behind) Evict(ctx context.Context, job string, id quorum.ReplicaID, reason string) error {
	return b.evict(ctx, job, id, reason)
}

// Kill implements web.Actions.
func (b behind) Kill(ctx context.Context, job string, id quorum.ReplicaID, reason string) error {
	return b.kill(ctx, job, id, reason)
}

// Status returns the present state. Without a leadership it has no jobs.
func (s *Server) Status(ctx context.Context) (Status, error) {
	now := time.Now()
	st := Status{
		Version: s.cfg.Version, Addr: s.Addr().String(), UptimeMs: now.Sub(s.started).Milliseconds(),
		NowMs: now.UnixMilli(), Sessions: s.sessions.Load(), Durable: s.cfg.DataDir != "", Jobs: []JobStatus{}, Servers: s.cluster.Servers(),
		OpenJoins: s.openJoins(),
	}
	if s.guard.TLS != nil {
		e := s.guard.TLS.Expiry()
		st.CertificateUntilMs, st.CertificateWarning = e.Until.UnixMilli(), e.Warning(now)
	}
	lead := s.leading()
	if lead == nil {
		if addr, self, ok := s.cluster.Leader(); ok && !self {
			st.Leader = addr
		}
		return st, nil
	}
	st.Refused = s.refused.list()
	st.Cluster, st.Leads, st.Term, st.Leader = lead.ledger.Cluster(), true, lead.term, s.address()
	for _, j := range lead.all() {
		one, err := j.facts(ctx)
		if err != nil {
			return st, err
		}
		st.Jobs = append(st.Jobs, one.Status())
	}
	return st, nil
}

// facts reads what a job's status is made of.
func (j *job) facts(ctx context.Context) (web.Job, error) {
	one := web.Job{Name: j.name}
	err := j.do(ctx, func(now time.Time) {
		one.Rules, one.BeatInterval = j.machine.Status(now), j.timing().BeatInterval
		for _, e := range j.events {
			one.Events = append(one.Events, api.Note(e))
		}
	})
	one.History = j.leadership.ledger.Job(j.name, 0).History
	return one, err
}
