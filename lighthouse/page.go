package lighthouse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/page"
	"github.com/skerry-ft/skerry/quorum"
)

// newMux is everything that the server says over HTTP.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", page.Index())
	mux.Handle("GET "+page.Assets, page.Files())
	mux.HandleFunc("GET /status.json", s.forwardHTTP(s.serveStatus))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	for name, act := range map[string]action{"drain": s.drain, "evict": s.evict, "kill": s.kill} {
		mux.HandleFunc("POST /jobs/{job}/replicas/{replica}/"+name, s.forwardHTTP(s.serveAction(act, http.StatusNoContent)))
	}
	mux.HandleFunc("GET "+pathTorchftStatus, s.forwardHTTP(s.serveTorchftStatus))
	mux.HandleFunc("POST "+pathTorchftKill, s.forwardHTTP(s.serveAction(s.killTorchft, http.StatusOK)))
	return mux
}

// servePage answers with a page that has that policy for its content.
func servePage(html []byte, policy string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		announceHTML(w, policy)
		_, _ = w.Write(html) // a reader who has gone needs no error
	}
}

// announceHTML sets the headers of a page that is made for this request alone.
func announceHTML(w http.ResponseWriter, policy string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	st, err := s.Status(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if r.Header.Get(hopKey) != "" {
		st.Leads = false // the server that was asked has passed the question on
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(st) // a reader who has gone needs no error
}

// serveHealth says 200 when this server leads or knows who does, 503 when nobody
// does: then standing quorums go on, but no new one is formed.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	_, self, ok := s.cluster.Leader()
	if s.leading() == nil && (self || !ok) {
		http.Error(w, "no leader", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// action is what an operator does to a replica.
type action func(ctx context.Context, job string, id quorum.ReplicaID, reason string) error

// serveAction carries out an operator's button, and answers with the code done.
// Browsers send Origin with every POST, and another site's page cannot forge it.
func (s *Server) serveAction(act action, done int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := sameOrigin(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		id, err := wire.CheckReplicaID(r.PathValue("replica"))
		if err == nil {
			err = act(r.Context(), r.PathValue("job"), id, "asked for on the status page")
		}
		switch {
		case err == nil:
			w.WriteHeader(done)
		case errors.Is(err, quorum.ErrUnknown):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, quorum.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case status.Code(err) == codes.FailedPrecondition: // its manager takes no kills
			http.Error(w, status.Convert(err).Message(), http.StatusConflict)
		default:
			http.Error(w, status.Convert(err).Message(), http.StatusBadGateway)
		}
	}
}

// sameOrigin refuses a request that a browser sends for another site. Programs
// send no Origin.
func sameOrigin(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return fmt.Errorf("request comes from another site (Sec-Fetch-Site: %s)", site)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
		return fmt.Errorf("request comes from another site (Origin: %s)", origin)
	}
	return nil
}
