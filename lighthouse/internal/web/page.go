package web

import (
	"fmt"
	"net/http"
)

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
	st, err := s.lighthouse.Status(r.Context())
	if err != nil {
		fail(w, r, failure{http.StatusServiceUnavailable, "no leader", err})
		return
	}
	if r.Header.Get(HopKey) != "" {
		st.Leads = false // the server that was asked has passed the question on
	}
	answer(w, r, st, nil)
}

// serveLive says that the process serves: see serveHealth for more.
func serveLive(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// serveHealth says 200 when this server leads or knows who does, 503 when nobody
// does: then standing quorums go on, but no new one is formed.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if !s.lighthouse.Healthy() {
		http.Error(w, "no leader", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
