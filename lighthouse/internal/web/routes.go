package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// route is one method of one path.
type route struct {
	Method  string
	Path    string // as http.ServeMux has it: {name} for a part
	Summary string
	Query   []param
	Body    any            // a value of the type that the request's body has; nil: none
	Answer  any            // of the answer's, as JSON; nil: none
	Streams map[string]any // of what the answer is a stream of, by content type
}

// param is one parameter of the query.
type param struct {
	Name, Doc string
	Integer   bool
}

// apiRoute is a path of the API: what it answers, and what is said of that.
type apiRoute struct {
	route
	serve http.HandlerFunc
}

// apiRoutes are all paths of the API.
func (s *Server) apiRoutes() []apiRoute {
	all := []apiRoute{
		{route{Method: "GET", Path: "/api/v1/status", Summary: "The present state of all jobs, or of one",
			Query: []param{paramJob}, Answer: api.Overview{}}, s.forwarded(s.serveOverview)},
		{route{Method: "GET", Path: "/api/v1/servers", Summary: "The servers of the lighthouse",
			Answer: api.Servers{}}, s.forwarded(s.serveServers)},
		{route{Method: "GET", Path: pathEvents, Summary: "What happened, oldest first; as NDJSON and SSE it goes on",
			Query: []param{paramJob, paramSince, paramLimit, paramFollow}, Answer: []api.Event{},
			Streams: map[string]any{typeNDJSON: api.Event{}, typeSSE: api.Event{}}}, s.leaderOnly(s.serveEvents)},
		{route{Method: "GET", Path: pathStream, Summary: "The state, then merge patches of it (RFC 7386), and events",
			Query: []param{paramJob}, Streams: map[string]any{typeSSE: api.Document{}}}, s.leaderOnly(s.serveStream)},
		{route{Method: "POST", Path: "/api/v1/jobs/{job}/rules", Summary: "Change some rules of a job",
			Body: api.RulesChange{}}, s.leaderOnly(s.serveConfigure)},
		{route{Method: "POST", Path: "/api/v1/jobs/{job}/scale", Summary: "Say how many replicas are wanted of a job, for its launchers",
			Body: api.Scale{}}, s.leaderOnly(s.serveScale)},
		{route{Method: "POST", Path: "/api/v1/leader/transfer", Summary: "Give the leadership to another server",
			Body: api.Transfer{}}, s.leaderOnly(s.serveTransfer)},
		{route{Method: "GET", Path: "/api/v1/openapi.json", Summary: "This document"}, serveOpenAPI},
	}
	for _, verb := range []struct {
		name, summary string
		act           action
	}{
		{"drain", "Ask a replica to finish its step and go", s.actions.Drain},
		{"evict", "Put a replica out at once", s.actions.Evict},
		{"kill", "End a replica's process through its manager", s.actions.Kill},
		{"undo", "Take back a drain, until the others have gone on without the replica", s.actions.Undo},
	} {
		all = append(all, apiRoute{route{Method: "POST", Path: "/api/v1/jobs/{job}/replicas/{replica}/" + verb.name,
			Summary: verb.summary, Body: api.Action{}}, s.leaderOnly(s.apiAction(verb.act))})
	}
	return all
}

var (
	paramJob    = param{Name: "job", Doc: "one job; without it all"}
	paramSince  = param{Name: "since", Doc: "the events after this seq, or, as t and Unix milliseconds, from this time on"}
	paramLimit  = param{Name: "limit", Doc: "at most so many, 1 to 1000", Integer: true}
	paramFollow = param{Name: "follow", Doc: "1: as NDJSON that goes on", Integer: true}
)

// addAPI adds the API's paths to mux, and answers all else below pathAPI in JSON.
func (s *Server) addAPI(mux *http.ServeMux) {
	methods := make(map[string][]string) // by path
	for _, route := range s.apiRoutes() {
		mux.HandleFunc(route.Method+" "+route.Path, s.compressed(route.serve))
		methods[route.Path] = append(methods[route.Path], route.Method)
	}
	for path, allowed := range methods {
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(allowed, http.MethodHead)
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			fail(w, r, failf(http.StatusMethodNotAllowed, "wrong method", "%s of %s, want %s", guard.Shown(r.Method), path, strings.Join(allowed, " or ")))
		})
	}
	mux.HandleFunc(pathAPI, func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, failf(http.StatusNotFound, "not found", "nothing is at %s; GET /api/v1/openapi.json lists all paths", guard.Shown(r.URL.Path)))
	})
}
