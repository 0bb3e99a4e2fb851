package replica

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
)

// Bounds of HTTP/1 on the manager's port, on which a scrape is all there is.
const (
	scrapeIdle     = 2 * time.Minute
	maxScrapeBytes = 16 << 10 // of headers
)

// connKey is the context key of the connection that a request came on.
type connKey struct{}

// newWeb makes what answers scrapes.
func (r *Replica) newWeb() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r.guardScrapes(r.cfg.Metrics))
	return &http.Server{
		Handler:           mux,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ReadHeaderTimeout: greetTimeout,
		ReadTimeout:       greetTimeout, // no request here has a body
		WriteTimeout:      writeTimeout,
		IdleTimeout:       scrapeIdle,
		MaxHeaderBytes:    maxScrapeBytes,
		ErrorLog:          log.New(io.Discard, "", 0), // a client that breaks off is no news
	}
}

// guardScrapes lets requests through to next that may be made: with a CA, those of a
// replica of this job, a lighthouse or an operator; without, all, as on the lighthouse. On
// loopback the name has to be this host's: a page of another site, whose name was bound
// to our address (DNS rebinding), has that name.
func (r *Replica) guardScrapes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if guard.IsLoopback(r.listener.Addr()) && !local(req.Host) {
			http.Error(w, fmt.Sprintf("request under the name %q, want localhost or an address: this manager listens on loopback", req.Host),
				http.StatusMisdirectedRequest)
			return
		}
		if err := r.mayScrape(req); err != nil {
			r.cfg.Sampled.Warn().Err(err).Str(logkey.Peer, req.RemoteAddr).Msg("scrape denied")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// mayScrape says whether the client's certificate, if one is asked for, is right.
func (r *Replica) mayScrape(req *http.Request) error {
	g := r.cfg.Guard
	if !g.AsksClients() {
		return nil
	}
	conn, ok := req.Context().Value(connKey{}).(guard.Secured)
	if !ok {
		return fmt.Errorf("%w: the connection is not secured", guard.ErrDenied)
	}
	return g.TLS.Admit(conn.TLSState(), r.cfg.Job, guard.Operator, guard.Lighthouse, guard.Replica)
}

// local says whether a request's Host is an address, or this host's name for itself.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "localhost" || net.ParseIP(host) != nil
}
