package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
)

// The paths of probes, which have no proof of anything.
const (
	pathHealth = "/healthz"
	pathLive   = "/livez"
)

// connKey is the context key of the connection that a request came on.
type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// caller is who makes an HTTP request.
type caller struct {
	state   *tls.ConnectionState // nil: no TLS
	private bool                 // on TLS or loopback
}

func callerOf(r *http.Request) caller {
	conn, ok := r.Context().Value(connKey{}).(guard.Secured)
	if !ok {
		return caller{}
	}
	state := conn.TLSState()
	return caller{state: state, private: state != nil || guard.IsLoopback(conn.RemoteAddr())}
}

// rightful says whether the caller's certificate, if one is wanted, is good for
// what reads, or for what changes.
func (s *Server) rightful(who caller, grave bool) error {
	if !s.cfg.Guard.AsksClients() {
		return nil
	}
	roles := []guard.Role{guard.Operator, guard.Lighthouse}
	if !grave {
		roles = append(roles, guard.Replica)
	}
	if err := s.cfg.Guard.TLS.Admit(who.state, "", roles...); err != nil {
		return err
	}
	if p, err := guard.PeerOf(who.state); err != nil || p.Bound() {
		return errors.Join(err, fmt.Errorf("%w: the caller is bound to job %q, and this shows all jobs", guard.ErrDenied, p.Job))
	}
	return nil
}

// guarded lets requests through to next that may be made. What reads needs a
// certificate, if there is a CA; what changes, and what shows the process from
// inside, an operator's, and the token, if there is one. The token stands for a
// certificate that is not shown, not for one that is. Programs send it as
// "Authorization: Bearer", browsers log in.
func (s *Server) guarded(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathLogin, servePage(loginHTML,
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"))
	mux.HandleFunc("POST "+pathLogin, s.login)
	mux.Handle("/", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Not no-referrer: with that, browsers send "Origin: null" with a form's POST,
		// and sameOrigin refuses our own login.
		h.Set("Referrer-Policy", "same-origin")
		fellow, err := s.fellow(w, r)
		if fellow {
			r = r.WithContext(context.WithValue(r.Context(), fellowKey{}, true))
		}
		if err == nil || !grave(r) {
			err = s.allowed(r)
		}
		_, told := errors.AsType[failure](err)
		switch api := strings.HasPrefix(r.URL.Path, pathAPI); {
		case err == nil:
			mux.ServeHTTP(w, r)
			return
		case !api && errors.Is(err, guard.ErrDenied) && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, pathLogin, http.StatusSeeOther)
		case errors.Is(err, guard.ErrDenied):
			h.Set("WWW-Authenticate", `Bearer realm="skerry"`)
			fail(w, r, err)
		case told, errors.Is(err, errMisdirected):
			fail(w, r, err)
		default:
			fail(w, r, failure{http.StatusForbidden, "forbidden", err})
		}
		s.cfg.Sampled.Warn().Str(zerolog.ErrorFieldName, guard.Shown(err.Error())).Str("method", guard.Shown(r.Method+" "+r.URL.Path)).
			Str(logkey.Peer, r.RemoteAddr).Msg("request denied")
	})
}

// errMisdirected refuses a request under a name that is not ours.
var errMisdirected = errors.New("request under a name that is not this server's")

// grave says whether a request changes something, or shows the process from inside.
func grave(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, "/debug/")
}

// allowed says whether a request may be made.
func (s *Server) allowed(r *http.Request) error {
	if r.URL.Path == pathHealth || r.URL.Path == pathLive || r.URL.Path == pathLogin && r.Method == http.MethodGet {
		return nil
	}
	who := callerOf(r)
	grave := grave(r)
	if grave || guard.IsLoopback(s.cfg.Addr) {
		// A page of another site whose name was bound to our address passes for
		// one of ours; its name gives it away. Reads under any name are left to those who
		// scrape a server by its service's name; on loopback there are none.
		if !s.cfg.Named(r.Host) {
			return fmt.Errorf("%w: %q; --allow-host adds a name", errMisdirected, r.Host)
		}
	}
	if grave {
		if err := sameOrigin(r); err != nil {
			return err
		}
	}
	if r.URL.Path == pathLogin {
		return nil
	}
	return s.vouched(r, who, grave)
}

// vouched checks what the caller shows: a certificate, the token, a login.
func (s *Server) vouched(r *http.Request, who caller, grave bool) error {
	if s.cfg.Guard.Adopt.Lenient() {
		return nil
	}
	err := s.rightful(who, grave)
	needToken := grave && !s.cfg.Guard.Token.IsZero()
	switch {
	case err == nil && !needToken:
		return nil
	case err != nil && (s.cfg.Guard.Token.IsZero() || guard.Verified(who.state)):
		return err // the token stands for a certificate, not for another one
	}
	if r.Context().Value(fellowKey{}) != nil {
		return nil // with the token: else it is not needed, or was refused above
	}
	// What proves nothing of the body, or of who asked, opens none of the API's paths.
	if proof := r.Header.Get(headerProof); proof != "" && !strings.HasPrefix(r.URL.Path, pathAPI) {
		return s.cfg.Guard.Token.Check(proof, hopOf(r), nil)
	}
	if header := r.Header.Get("Authorization"); header != "" {
		if !who.private {
			return fmt.Errorf("%w: the token came over a connection that others can read; it should be changed", guard.ErrDenied)
		}
		return s.cfg.Guard.Token.CheckAuthorization(header)
	}
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return fmt.Errorf("%w: this needs the token", guard.ErrDenied)
	}
	if grave && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return errors.New("a login without Origin or Sec-Fetch-Site: it may come from another site")
	}
	return s.cfg.Guard.Token.CheckLogin(cookie.Value)
}
