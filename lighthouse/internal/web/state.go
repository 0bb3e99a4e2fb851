package web

import (
	"context"
	"net/http"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/lighthouse/internal/facts"
)

// serveOverview answers with the state of the jobs.
func (s *Server) serveOverview(w http.ResponseWriter, r *http.Request) {
	job := r.URL.Query().Get("job")
	if job != "" {
		if _, err := wire.CheckJob(job); err != nil {
			fail(w, r, err)
			return
		}
	}
	o, err := s.lighthouse.Overview(r.Context(), job)
	if err != nil {
		f := failureOf(err)
		if f.status == http.StatusNotFound {
			f = unknownJob(job)
		}
		fail(w, r, f)
		return
	}
	if r.Header.Get(access.HopKey) != "" {
		o.Leads = false // the server that was asked has passed the question on
	}
	answer(w, r, o, timeless(o))
}

// timeless is o without what goes on by itself: times, and signs of life.
func timeless(o api.Overview) api.Overview {
	o.NowMs, o.UptimeMs = 0, 0
	jobs := make([]api.Job, len(o.Jobs))
	for i, j := range o.Jobs {
		replicas := make([]api.Replica, len(j.Replicas))
		for k, r := range j.Replicas {
			r.SilenceMs, r.IdleMs, r.WaitingMs, r.Progress = 0, 0, 0, 0
			replicas[k] = r
		}
		j.Replicas, j.Goodput = replicas, 0
		j.EtaMs = 0
		jobs[i] = j
	}
	o.Jobs = jobs
	return o
}

// serveServers answers with the servers, and says which one was asked.
func (s *Server) serveServers(w http.ResponseWriter, r *http.Request) {
	all, err := s.lighthouse.Servers(r.Context())
	if err != nil {
		fail(w, r, err)
		return
	}
	all.Asked, all.Answered = s.cfg.Addr.String(), s.cfg.Addr.String()
	if asked := r.Header.Get(headerAsked); asked != "" && r.Header.Get(access.HopKey) != "" {
		all.Asked = guard.Shown(asked)
	}
	like := all
	like.Servers = make([]api.ServerFacts, len(all.Servers))
	for i, one := range all.Servers {
		one.SilenceMs = 0
		like.Servers[i] = one
	}
	answer(w, r, all, like)
}

// source is the server as its streams watch it.
type source struct{ *Server }

// Document implements live.Source.
func (s source) Document(ctx context.Context, job string) (api.Document, error) {
	o, err := s.lighthouse.Overview(ctx, job)
	if err != nil {
		return api.Document{}, err
	}
	servers, err := s.lighthouse.Servers(ctx)
	return facts.Document(o, servers), err
}

// Events implements live.Source.
func (s source) Events(job string, since int64, limit int) ([]api.Event, error) {
	return s.feed.Events(job, since, limit)
}

// Newest implements live.Source.
func (s source) Newest() (map[string]int64, error) { return s.feed.Newest() }

// Told implements live.Source.
func (s source) Told() <-chan struct{} { return s.feed.Told() }
