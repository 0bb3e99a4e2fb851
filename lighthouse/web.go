package lighthouse

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/facts"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
)

// What /status.json has; package api says what it means.
type (
	Status        = api.Status
	JobStatus     = api.JobStatus
	ReplicaStatus = api.ReplicaStatus
)

// newWeb is the server's HTTP side.
func (s *Server) newWeb() *web.Server {
	return web.New(web.Config{
		Guard: s.guard, Addr: s.Addr(), Names: s.names, Transport: s.transport, Metrics: s.metrics.Handler(), Jobs: s.jobs,
		HelloTimeout: s.cfg.HelloTimeout, Sampled: s.sampled,
	}, behind{s})
}

// behind is the server as its HTTP side sees it: a web.Backend.
type behind struct{ *Server }

// Healthy implements web.Lighthouse.
func (b behind) Healthy() bool {
	ok, _ := b.healthy()
	return ok
}

// healthy says whether this server leads, or knows which one does, and what is closed when
// that changes: without a leader standing quorums go on, but no new one is formed.
func (s *Server) healthy() (ok bool, changed [2]<-chan struct{}) {
	changed[0] = s.cluster.Changed()
	s.mu.Lock()
	leads := s.mu.leadership != nil
	changed[1] = s.mu.Changed()
	s.mu.Unlock()
	_, self, known := s.cluster.Leader()
	return leads || known && !self, changed
}

// Route implements web.Routes.
func (b behind) Route(ctx context.Context, hopped bool) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	to, err := b.route(ctx, wait{hopped: hopped})
	return to.leader, err
}

// Leader implements web.Routes.
func (b behind) Leader() (string, <-chan struct{}) {
	changed := b.cluster.Changed()
	if addr, self, ok := b.cluster.Leader(); ok && !self {
		return addr, changed
	}
	return "", changed
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

// Servers implements web.Lighthouse.
func (b behind) Servers(ctx context.Context) (api.Servers, error) {
	st := api.Servers{Servers: []api.ServerFacts{}}
	lead := b.leading()
	if lead == nil {
		// No leader is known: what is left is which servers there are.
		for _, addr := range b.cluster.Servers() {
			st.Servers = append(st.Servers, api.ServerFacts{ID: addr, Addr: addr, State: "unknown"})
		}
		return st, nil
	}
	st.Cluster, st.Term = lead.ledger.Cluster(), lead.term
	if !b.cfg.Cluster.Several() {
		addr := b.address()
		st.Servers = append(st.Servers, api.ServerFacts{ID: addr, Addr: addr, Version: b.cfg.Version, State: "leader",
			Leader: true, Voter: true, Alive: true, LastIndex: b.cluster.Ledger().Progress().LastIndex})
		return st, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	members, err := b.cluster.Service().Members(ctx, &skerrypb.MembersRequest{})
	st.Next, st.Servers = members.GetNext(), facts.Servers(members)
	return st, err
}

// Configure implements web.Actions.
func (b behind) Configure(ctx context.Context, job string, c api.RulesChange, o web.Order) error {
	wanted, err := wire.ConfigChangeFromProto(facts.RulesRequest(c))
	if err == nil {
		_, err = b.configure(ctx, job, wanted, o)
	}
	return err
}

// Events implements web.Feed.
func (b behind) Events(job string, since int64, limit int) ([]api.Event, error) {
	lead := b.leading()
	if lead == nil {
		return nil, cluster.ErrNotLeader
	}
	return lead.feed.Events(job, since, limit), nil
}

// Newest implements web.Feed.
func (b behind) Newest() (map[string]int64, error) {
	lead := b.leading()
	if lead == nil {
		return nil, cluster.ErrNotLeader
	}
	return lead.feed.Newest(), nil
}

// Told implements web.Feed.
func (b behind) Told() <-chan struct{} {
	if lead := b.leading(); lead != nil {
		return lead.feed.Told()
	}
	now := make(chan struct{})
	close(now)
	return now
}

// Overview implements web.Lighthouse.
func (b behind) Overview(ctx context.Context, name string) (api.Overview, error) {
	st := b.Server.head()
	o := facts.Overview(st, b.started)
	lead := b.leading()
	if lead == nil {
		return o, nil
	}
	all := lead.all()
	if name != "" {
		one, ok := lead.known(name)
		if !ok {
			return o, fmt.Errorf("%w: no job is called %q; GET /api/v1/status lists them", quorum.ErrUnknown, name)
		}
		all = []*job{one}
	}
	for _, j := range all {
		one, err := j.facts(ctx)
		if err != nil {
			return o, err
		}
		o.Jobs = append(o.Jobs, one.Overview())
	}
	return o, nil
}

// Status returns the present state. Without a leadership it has no jobs.
func (s *Server) Status(ctx context.Context) (Status, error) {
	st := s.head()
	lead := s.leading()
	if lead == nil {
		return st, nil
	}
	for _, j := range lead.all() {
		one, err := j.facts(ctx)
		if err == nil {
			err = j.do(ctx, func(time.Time) { one.Events = slices.Clone(j.events) })
		}
		if err != nil {
			return st, err
		}
		one.History = lead.ledger.Job(j.name, 0).History
		st.Jobs = append(st.Jobs, one.Status())
	}
	return st, nil
}

// head is the present state without the jobs.
func (s *Server) head() Status {
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
		return st
	}
	st.Refused = s.refused.List()
	st.Cluster, st.Leads, st.Term, st.Leader = lead.ledger.Cluster(), true, lead.term, s.address()
	return st
}

// facts reads what a job's status is made of.
func (j *job) facts(ctx context.Context) (facts.Job, error) {
	one := facts.Job{Name: j.name, Wanted: j.leadership.ledger.Wanted(j.name), Launchers: j.board.Launchers()}
	err := j.do(ctx, func(now time.Time) {
		one.Now, one.Rules, one.BeatInterval = now, j.machine.Status(now), j.timing().BeatInterval
		one.Ordinal = j.ordinal
		one.StepsTotal, one.LongRate = j.steps.Total(), j.steps.PerSecond(now)
	})
	one.LastSeq, one.Cost = j.leadership.feed.Account(j.name)
	return one, err
}
