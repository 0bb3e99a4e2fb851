package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/skerry-ft/skerry/internal/guard"
)

// HopKey is the header of what another server has passed on: it is served or refused,
// and never passed on again.
const HopKey = "skerry-hop"

// forwarded serves a request here if this server leads, and has the leader
// serve it if another one does.
func (s *Server) forwarded(here http.HandlerFunc) http.HandlerFunc { return s.passed(here, true) }

// leaderOnly is forwarded for what a server that knows no leader has nothing to say of.
func (s *Server) leaderOnly(here http.HandlerFunc) http.HandlerFunc { return s.passed(here, false) }

func (s *Server) passed(here http.HandlerFunc, alone bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := sameOrigin(r); err != nil {
			fail(w, r, err)
			return
		}
		leader, err := s.routes.Route(r.Context(), r.Header.Get(HopKey) != "")
		switch {
		case err == nil && leader == "", err != nil && alone && r.Method != http.MethodPost:
			here(w, r) // no server leads: what this one knows is better than nothing
		case err != nil:
			fail(w, r, err)
		default:
			s.passOn(w, r, leader)
		}
	}
}

// passOn has the leader serve a request, for as long as it leads. That it came from the
// same site was checked here, where its Host is the one that the browser knows.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, leader string) {
	text, err := body(w, r)
	if err != nil {
		fail(w, r, err)
		return
	}
	asker := s.asker(r)
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if isStream(r) {
		place, err := s.enterStream(w, r)
		if err != nil {
			fail(w, r, err)
			return
		}
		defer place.Leave()
		watching.Go(func() { s.cutWithLeader(ctx, cancel, leader) })
	}
	proxy := &httputil.ReverseProxy{
		Transport:     s.cfg.Transport,
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: s.scheme(), Host: leader})
			s.vouch(p.Out, asker, text)
			p.Out.Header.Del("Origin")
			p.Out.Header.Del("Sec-Fetch-Site")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			fail(w, r, failf(http.StatusBadGateway, "unreachable", "the leader %s cannot be reached: %v", leader, err))
		},
	}
	if isStream(r) {
		w = patient{w, http.NewResponseController(w)}
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// cutWithLeader cancels a stream that is passed on when another server leads, or this one
// stops: its client comes again, and finds the new leader. A leader that hangs would not
// say so itself. It ends with ctx.
func (s *Server) cutWithLeader(ctx context.Context, cancel context.CancelFunc, leader string) {
	for {
		now, changed := s.routes.Leader()
		if now != leader {
			cancel()
			return
		}
		select {
		case <-changed:
		case <-s.stopping:
			cancel()
			return
		case <-ctx.Done():
			return
		}
	}
}

// What vouches for a request that another server has passed on: it has checked who asked.
// The one of the first kind is for servers that know no other; it says nothing of who
// asked, and is no proof for the API.
const (
	headerProof  = "Skerry-Proof"
	headerProof2 = "Skerry-Proof-2"
)

// hopOf is what a server proves of a request that it passes on.
func hopOf(r *http.Request) string { return "hop " + r.Method + " " + r.URL.EscapedPath() }

// hop2Of is what it proves besides, together with the body: all that the request says, and
// who asked. A header has no line breaks.
func hop2Of(r *http.Request) string {
	return "hop2 " + r.Method + " " + r.URL.EscapedPath() + "?" + r.URL.RawQuery +
		"\n" + r.Header.Get(headerBy) + "\n" + r.Header.Get(headerFrom)
}

// vouch makes a request that is passed on one of this server's own.
func (s *Server) vouch(out *http.Request, asker Order, text []byte) {
	h := out.Header
	for _, name := range []string{"Authorization", "Cookie", headerProof, headerProof2} {
		h.Del(name)
	}
	h.Set(HopKey, "1")
	h.Set(headerBy, asker.By)
	h.Set(headerFrom, asker.From)
	h.Set(headerAsked, s.cfg.Addr.String())
	token := s.cfg.Guard.Speaks().Token
	if proof := token.Prove(hopOf(out), nil); proof != "" {
		h.Set(headerProof, proof)
		h.Set(headerProof2, token.Prove(hop2Of(out), text))
	}
}

// fellow says whether another server passed a request on, and vouches for who asked: by
// the token, and with a CA by its role, too. Without either nothing is guarded, and its
// word is taken as any other is.
func (s *Server) fellow(w http.ResponseWriter, r *http.Request) (bool, error) {
	if r.Header.Get(HopKey) == "" {
		return false, nil
	}
	if s.cfg.Guard.AsksClients() && s.cfg.Guard.TLS.Admit(callerOf(r).state, "", guard.Lighthouse) != nil {
		return false, nil
	}
	if s.cfg.Guard.Token.IsZero() || s.cfg.Guard.Adopt.Lenient() {
		return true, nil
	}
	proof := r.Header.Get(headerProof2)
	if proof == "" {
		return false, nil
	}
	text, err := body(w, r)
	if err != nil {
		return false, err
	}
	if err := s.cfg.Guard.Token.Check(proof, hop2Of(r), text); err != nil {
		return false, fmt.Errorf("passed on by another server: %w", err)
	}
	return true, nil
}

// scheme is how servers of this cluster speak HTTP to each other.
func (s *Server) scheme() string {
	if s.cfg.Guard.Speaks().Serves() {
		return "https"
	}
	return "http"
}
