package web

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
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

	// Healthy says whether this server leads, or knows which one does.
	Healthy() bool

	// Route waits a moment for a leader, and returns its address, or "" if this server
	// leads. hopped says that another server has passed the request on: another leader
	// than this server is an error.
	Route(ctx context.Context, hopped bool) (leader string, err error)

	// Known says whether there is a job of that name.
	Known(ctx context.Context, job string) (bool, error)
}

// Actions is what an operator may do. Errors: quorum.ErrUnknown, quorum.ErrInvalid;
// those of gRPC, of a replica's manager.
type Actions interface {
	Drain(ctx context.Context, job string, id quorum.ReplicaID, reason string) error
	Evict(ctx context.Context, job string, id quorum.ReplicaID, reason string) error
	Kill(ctx context.Context, job string, id quorum.ReplicaID, reason string) error
}

// Config is what the HTTP side of a server has of it.
type Config struct {
	Guard     *guard.Guard
	Addr      net.Addr               // where the server listens
	Named     func(host string) bool // whether a host, as a browser sends it, is this server's
	Transport *http.Transport        // for requests that the leader is to serve
	Metrics   http.Handler           // answers a scrape

	// HelloTimeout is how long a request's header may take.
	HelloTimeout time.Duration

	Sampled zerolog.Logger // for the lines that strangers cause
}

// Server serves a lighthouse's pages and its API over HTTP.
type Server struct {
	cfg        Config
	lighthouse Lighthouse
	actions    Actions
}

// New makes the HTTP side of a lighthouse. It starts nothing.
func New(cfg Config, l Lighthouse, a Actions) *Server {
	return &Server{cfg: cfg, lighthouse: l, actions: a}
}

// HTTP returns the server for Serve.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s.guarded(s.newMux()),
		ConnContext:       withConn,
		ReadHeaderTimeout: s.cfg.HelloTimeout,
		ReadTimeout:       s.cfg.HelloTimeout, // no request here has a body but the login
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
	}
}

// newMux is everything that the server says over HTTP.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page.Index())
	mux.Handle("GET "+page.Assets, page.Files())
	mux.HandleFunc("GET /status.json", s.forwarded(s.serveStatus))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.Handle("GET /metrics", s.cfg.Metrics)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	for name, act := range map[string]action{"drain": s.actions.Drain, "evict": s.actions.Evict, "kill": s.actions.Kill} {
		mux.HandleFunc("POST /jobs/{job}/replicas/{replica}/"+name, s.forwarded(s.serveAction(act, http.StatusNoContent)))
	}
	mux.HandleFunc("GET "+pathTorchftStatus, s.forwarded(s.serveTorchftStatus))
	mux.HandleFunc("POST "+pathTorchftKill, s.forwarded(s.serveAction(s.killTorchft, http.StatusOK)))
	return mux
}
