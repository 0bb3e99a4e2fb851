package web

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// HopKey is the header of what another server has passed on: it is served or refused,
// and never passed on again.
const HopKey = "skerry-hop"

// forwarded serves a request here if this server leads, and has the leader
// serve it if another one does.
func (s *Server) forwarded(here http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := sameOrigin(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		leader, err := s.lighthouse.Route(r.Context(), r.Header.Get(HopKey) != "")
		switch {
		case err == nil && leader == "", err != nil && r.Method == http.MethodGet:
			here(w, r) // nobody leads: what this server knows is better than nothing
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			s.proxyTo(leader).ServeHTTP(w, r)
		}
	}
}

// proxyTo passes a request on. That it came from the same site was checked
// here, where its Host is the one that the browser knows.
func (s *Server) proxyTo(leader string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: s.cfg.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: s.scheme(), Host: leader})
			s.vouch(r.Out)
			r.Out.Header.Set(HopKey, "1")
			r.Out.Header.Del("Origin")
			r.Out.Header.Del("Sec-Fetch-Site")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("the leader %s cannot be reached: %v", leader, err), http.StatusBadGateway)
		},
	}
}

// headerProof vouches for a request that another server has passed on: it has
// checked who asked.
const headerProof = "Skerry-Proof"

// hopOf is what a server proves of a request that it passes on.
func hopOf(r *http.Request) string { return "hop " + r.Method + " " + r.URL.EscapedPath() }

// vouch makes a request that is passed on one of this server's own.
func (s *Server) vouch(out *http.Request) {
	out.Header.Del("Authorization")
	out.Header.Del("Cookie")
	out.Header.Del(headerProof)
	if proof := s.cfg.Guard.Speaks().Token.Prove(hopOf(out), nil); proof != "" {
		out.Header.Set(headerProof, proof)
	}
}

// scheme is how servers of this cluster speak HTTP to each other.
func (s *Server) scheme() string {
	if s.cfg.Guard.Speaks().Serves() {
		return "https"
	}
	return "http"
}
