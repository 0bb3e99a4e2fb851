package web

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/live"
	"github.com/skerry-ft/skerry/lighthouse/internal/page"
	"github.com/skerry-ft/skerry/quorum"
)

const (
	// idleTimeout and writeTimeout bound HTTP/1 connections; the longest answer
	// is a profile.
	idleTimeout  = 2 * time.Minute
	writeTimeout = 5 * time.Minute
)

// Lighthouse is what the pages and answers are about. It is safe for concurrent use.
type Lighthouse interface {
	// Status is the present state, without jobs if this server does not lead.
	Status(ctx context.Context) (api.Status, error)

	// Overview is the present state of one job, or of all if none is named, as the API
	// has it. quorum.ErrUnknown: there is no such job.
	Overview(ctx context.Context, job string) (api.Overview, error)

	// Servers is what this server knows of the cluster's.
	Servers(ctx context.Context) (api.Servers, error)

	// Healthy says whether this server leads, or knows which one does.
	Healthy() bool

	// Known says whether there is a job of that name.
	Known(ctx context.Context, job string) (bool, error)
}

// Routes is where requests are to be served.
type Routes interface {
	// Route waits a moment for a leader, and returns its address, or "" if this server
	// leads. hopped says that another server has passed the request on: another leader
	// than this server is an error.
	Route(ctx context.Context, hopped bool) (leader string, err error)

	// Leader is the address of the leader, "" if this server leads or knows none, and a
	// channel that is closed when that changes.
	Leader() (string, <-chan struct{})
}

// Order is an operator's: who asked, from which address, and why.
type Order struct {
	By, From, Reason string
}

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (o Order) MarshalZerologObject(e *zerolog.Event) {
	e.Str("by", o.By).Str("from", o.From).Str("why", o.Reason)
}

// Actions is what an operator may do. Errors: quorum.ErrUnknown, quorum.ErrInvalid,
// quorum.ErrNoDrain; those of gRPC, of a replica's manager and of the cluster.
type Actions interface {
	Drain(ctx context.Context, job string, id quorum.ReplicaID, o Order) error
	Evict(ctx context.Context, job string, id quorum.ReplicaID, o Order) error
	Kill(ctx context.Context, job string, id quorum.ReplicaID, o Order) error
	Undo(ctx context.Context, job string, id quorum.ReplicaID, o Order) error
	Configure(ctx context.Context, job string, c api.RulesChange, o Order) error
	Scale(ctx context.Context, job string, replicas int, o Order) error
	Transfer(ctx context.Context, to string, o Order) error
}

// Feed is the events of the jobs, while this server leads; live.Source says more.
type Feed interface {
	Events(job string, since int64, limit int) ([]api.Event, error)
	Newest() (map[string]int64, error)
	Told() <-chan struct{}
}

// Backend is the server behind the pages.
type Backend interface {
	Lighthouse
	Routes
	Actions
	Feed
}

// Config is what the HTTP side of a server has of it.
type Config struct {
	Guard     *guard.Guard
	Addr      net.Addr        // where the server listens
	Names     func() []string // the hosts by which browsers may reach the server, beside addresses
	Transport *http.Transport // for requests that the leader is to serve
	Metrics   http.Handler    // answers a scrape
	// Jobs are those that this server leads, as the rules have them.
	Jobs func(context.Context) []quorum.Status

	// HelloTimeout is how long a request's header may take.
	HelloTimeout time.Duration

	Sampled zerolog.Logger // for the lines that strangers cause
}

// Server serves a lighthouse's pages and its API over HTTP.
type Server struct {
	cfg        Config
	lighthouse Lighthouse
	routes     Routes
	actions    Actions
	feed       Feed
	hub        *live.Hub
	streams    *perhost.Counter // the open ones, by the host that asked
	stopping   chan struct{}    // closed when the server stops: streams end
}

// New makes the HTTP side of a lighthouse. It starts nothing.
func New(cfg Config, b Backend) *Server {
	s := &Server{
		cfg: cfg, lighthouse: b, routes: b, actions: b, feed: b,
		streams: perhost.New(streamLimits), stopping: make(chan struct{}),
	}
	s.hub = live.NewHub(source{s})
	return s
}

// HTTP returns the server for Serve. Its Shutdown ends streams; Wait returns when what they
// share has ended, too.
func (s *Server) HTTP() *http.Server {
	h := &http.Server{
		Handler:           s.guarded(s.newMux()),
		ConnContext:       withConn,
		ReadHeaderTimeout: s.cfg.HelloTimeout,
		ReadTimeout:       s.cfg.HelloTimeout, // bodies here are small
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
	}
	h.RegisterOnShutdown(sync.OnceFunc(func() {
		close(s.stopping)
		s.hub.Stop()
	}))
	return h
}

// Wait returns when nothing of the server runs any more, after HTTP's Shutdown.
func (s *Server) Wait() {
	<-s.stopping
	s.hub.Wait()
}

// newMux is everything that the server says over HTTP.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	plain := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, s.compressed(h)) }
	plain("GET /{$}", page.Index().ServeHTTP)
	plain("GET "+page.Assets, page.Files().ServeHTTP)
	plain("GET /status.json", s.forwarded(s.serveStatus))
	mux.HandleFunc("GET "+pathHealth, s.serveHealth)
	mux.HandleFunc("GET "+pathLive, serveLive)
	mux.Handle("GET /metrics", s.cfg.Metrics)
	mux.HandleFunc("GET /metrics/targets", s.forwarded(s.serveTargets))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", unhurried(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", unhurried(pprof.Trace))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	for name, act := range map[string]action{"drain": s.actions.Drain, "evict": s.actions.Evict, "kill": s.actions.Kill} {
		mux.HandleFunc("POST /jobs/{job}/replicas/{replica}/"+name, s.forwarded(s.serveAction(act, http.StatusNoContent)))
	}
	plain("GET "+pathTorchftStatus, s.forwarded(s.serveTorchftStatus))
	mux.HandleFunc("POST "+pathTorchftKill, s.forwarded(s.serveAction(s.killTorchft, http.StatusOK)))
	s.addAPI(mux)
	return mux
}
