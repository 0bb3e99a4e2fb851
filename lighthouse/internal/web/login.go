package web

import (
	_ "embed" // the login form
	"net/http"
	"strings"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
)

//go:embed login.html
var loginHTML []byte

// The paths and the cookie of a login.
const (
	pathLogin   = "/login"
	loginCookie = "skerry_login"

	// maxLoginBytes bounds the login form.
	maxLoginBytes = 4 << 10
)

// login takes the token from the form and gives the browser a cookie that
// proves it was shown. Other sites cannot have it sent: SameSite, and Origin is
// checked besides.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r)
	if !who.private {
		http.Error(w, "log in over TLS (--tls-ca, --tls-cert, --tls-key), or from the server's own machine (ssh -L): "+
			"this connection can be read by others", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	if err := s.cfg.Guard.Token.CheckBearer([]byte(strings.TrimSpace(r.PostFormValue("token")))); err != nil {
		s.cfg.Sampled.Warn().Str(logkey.Peer, r.RemoteAddr).Msg("login denied")
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: s.cfg.Guard.Token.Login(), Path: "/", MaxAge: int(guard.LoginLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cfg.Guard.Serves(),
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
