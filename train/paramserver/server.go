package paramserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/store"
)

// Server gives sessions out. NewServer listens; Run serves until its ctx ends or Close.
// Safe for concurrent use.
type Server struct {
	cfg   ServerConfig
	token *guard.Token
	ln    net.Listener
	http  *http.Server
	store *store.Server
	at    string // "host:port" of the store, for clients

	places   chan struct{} // one for each session
	requests chan struct{} // one for each request under way
	begin    chan Session  // from requests to dispatch

	ended struct { // since the last sweep
		sync.Mutex
		ids []string
	}

	stop     chan struct{} // closed by Close
	stopping sync.Once
}

// NewServer validates cfg and listens. It starts nothing: call Run, or Close.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("paramserver: %w", err)
	}
	cfg = cfg.withDefaults()
	allowed := cfg.Open || len(cfg.Token) > 0 || cfg.TLS.AsksClients()
	if err := netaddr.Check(context.Background(), cfg.Listen, allowed, "set Token, or a TLS that asks for certificates, or Open"); err != nil {
		return nil, fmt.Errorf("paramserver: Listen = %s: %w", cfg.Listen, err)
	}
	s := &Server{
		cfg: cfg, token: tokenOf(cfg.Token),
		places: make(chan struct{}, cfg.MaxSessions), requests: make(chan struct{}, maxRequests),
		begin: make(chan Session), stop: make(chan struct{}),
	}
	var err error
	if s.ln, err = netaddr.Listen(cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for sessions: %w", err)
	}
	if err := s.openStore(); err != nil {
		return nil, errors.Join(err, s.ln.Close())
	}
	s.ln = guard.Limit(s.ln, guard.Limits{MaxConns: maxConns, MaxPerHost: maxConns / 4, WriteTimeout: requestTimeout})
	if cfg.TLS != nil {
		s.ln = tls.NewListener(s.ln, cfg.TLS.Server)
	}
	s.http = &http.Server{
		Handler:     http.HandlerFunc(s.handle),
		ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		ErrorLog:                     log.New(io.Discard, "", 0), // what port scans leave behind
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.SetKeepAlivesEnabled(false) // a client asks once
	return s, nil
}

// openStore makes the store of the sessions, on a free port beside the listener.
func (s *Server) openStore() (err error) {
	host, _, err := net.SplitHostPort(s.cfg.Listen)
	if err != nil {
		return err
	}
	s.store, err = store.NewServer(store.ServerConfig{
		Listen: net.JoinHostPort(host, "0"), TLS: s.cfg.TLS, Guarded: true,
		AuthWait: authWait, MaxBytes: maxStoreBytes, Log: s.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("serve the sessions' store: %w", err)
	}
	own, port, err := net.SplitHostPort(s.store.Addr())
	if err != nil {
		return errors.Join(err, s.store.Close())
	}
	if advertise := strings.Trim(s.cfg.Advertise, "[]"); advertise != "" {
		own = advertise
	}
	s.at = net.JoinHostPort(own, port)
	return nil
}

// Addr is "host:port" as the HTTP listener says it.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Sessions is how many sessions there are now, those that wait for their clients included.
func (s *Server) Sessions() int { return len(s.places) }

// Run serves until ctx ends or Close, then ends all sessions, and returns nil once all is
// quiet. It returns an error only if it cannot serve any more. It is called once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return s.store.Run(ctx) })
	all.Go(s.serve)
	all.Go(func() error { return s.dispatch(ctx) })
	all.Go(func() error {
		select {
		case <-ctx.Done():
		case <-s.stop:
			cancel()
		}
		return s.http.Close()
	})
	err := all.Wait()
	return errors.Join(err, s.Close())
}

// serve answers requests until http is closed, and has waited for each.
func (s *Server) serve() error {
	err := s.http.Serve(s.ln)
	for range maxRequests { // one for each that leaves, and then none can begin
		s.requests <- struct{}{}
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve sessions: %w", err)
}

// dispatch runs the sessions that requests begin, and sweeps up after those that ended.
func (s *Server) dispatch(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	var before []string
	for {
		select {
		case <-tick.C:
			before = s.sweep(before)
		case n := <-s.begin:
			all.Go(func() { s.hold(ctx, n) })
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends Run, and all sessions; without Run it releases the listeners. Safe to call
// twice.
func (s *Server) Close() error {
	s.stopping.Do(func() { close(s.stop) })
	err := errors.Join(s.http.Close(), s.store.Close())
	if lerr := s.ln.Close(); lerr != nil && !errors.Is(lerr, net.ErrClosed) {
		err = errors.Join(err, lerr)
	}
	return err
}

// handle answers one request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	select {
	case s.requests <- struct{}{}:
		defer func() { <-s.requests }()
	default:
		refuse(w, http.StatusServiceUnavailable, "too many requests")
		return
	}
	if r.Method != http.MethodGet || r.URL.Path != newSessionPath || r.ContentLength != 0 {
		refuse(w, http.StatusBadRequest, "want GET "+newSessionPath+" without a body")
		return
	}
	if !s.token.IsZero() {
		if err := s.token.Check(r.Header.Get(proofHeader), proofScope, nil); err != nil {
			s.cfg.Log.Warn().Str(logkey.Addr, r.RemoteAddr).Err(err).Msg("session denied")
			refuse(w, http.StatusUnauthorized, err.Error())
			return
		}
	}
	select {
	case s.places <- struct{}{}:
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d sessions, want at most %d", s.cfg.MaxSessions+1, s.cfg.MaxSessions))
		return
	}
	s.start(w, r)
}

// start begins a session, which owns the place that was taken.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	n := Session{ID: strings.ToLower(rand.Text()), Remote: r.RemoteAddr}
	text, err := json.Marshal(answer{ID: n.ID, Address: s.at + "/" + sessionPrefix + n.ID})
	if err == nil {
		err = s.store.Allow(sessionPrefix+n.ID, secretOf(s.cfg.Token, n.ID))
	}
	if err != nil {
		<-s.places
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	select {
	case s.begin <- n:
	case <-r.Context().Done(): // the client is gone, or the server ends
		s.forget(n)
		return
	case <-s.stop:
		s.forget(n)
		refuse(w, http.StatusServiceUnavailable, "the server ends")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // a client that does not get it does not come
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why+"\n") // for who reads it
}
