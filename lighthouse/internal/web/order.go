package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/quorum"
)

// order reads an action's body into into, whose reason is reason, and says who asked.
func (s *Server) order(w http.ResponseWriter, r *http.Request, into any, reason *string) (Order, error) {
	if err := sameOrigin(r); err != nil {
		return Order{}, err
	}
	text, err := body(w, r)
	if err != nil {
		return Order{}, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return Order{}, invalid("the body is empty, want JSON as {\"reason\": \"why\"}")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Order{}, invalid("the body is not the JSON that is wanted: %s", guard.Shown(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Order{}, invalid("the body has more after its JSON object")
	}
	o := s.asker(r)
	switch o.Reason = strings.TrimSpace(*reason); {
	case o.Reason == "":
		return Order{}, invalid("reason is empty, want why, in 1 to %d bytes: it stands in the history", api.MaxReasonBytes)
	case len(o.Reason) > api.MaxReasonBytes:
		return Order{}, invalid("reason has %d bytes, want 1 to %d", len(o.Reason), api.MaxReasonBytes)
	case !utf8.ValidString(o.Reason):
		return Order{}, invalid("reason is not UTF-8")
	}
	o.Reason = wire.Text(o.Reason)
	*reason = o.Reason
	return o, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", quorum.ErrInvalid, fmt.Errorf(format, args...))
}

// maxDrained is how much of a body that is too large is thrown away: a client that has
// sent all of it reads the answer, where one that is cut sees a broken connection.
const maxDrained = 4 << 20

// body reads the body of a request, once: what follows reads the same again.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var text []byte
	var err error
	if r.ContentLength <= api.MaxBodyBytes { // or is not said
		text, err = io.ReadAll(io.LimitReader(r.Body, api.MaxBodyBytes+1))
	}
	if r.ContentLength > api.MaxBodyBytes || len(text) > api.MaxBodyBytes {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // its end, or an error, is as good
		w.Header().Set("Connection", "close")           // what is left is not read
		return nil, failf(http.StatusRequestEntityTooLarge, "too large", "the body has more than %d bytes, want at most that", api.MaxBodyBytes)
	}
	if err != nil {
		return nil, invalid("the body broke off: %w", err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return text, nil
}

// What a server tells the leader of who asked it, under its proof.
const (
	headerBy    = "Skerry-By"
	headerFrom  = "Skerry-From"
	headerAsked = "Skerry-Asked"
)

// fellowKey is the context key of a request that another server has passed on, and of which
// it has proved what it says.
type fellowKey struct{}

// asker is who makes a request, without a reason: as the server says that was asked, or by
// what the caller has shown here.
func (s *Server) asker(r *http.Request) Order {
	if r.Context().Value(fellowKey{}) != nil {
		o := Order{By: guard.Shown(r.Header.Get(headerBy)), From: guard.Shown(r.Header.Get(headerFrom))}
		if g := s.cfg.Guard; !g.AsksClients() && (g.Token.IsZero() || g.Adopt.Lenient()) {
			o.By += access.Unproved
		}
		return o
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	o := Order{By: host, From: host}
	who := callerOf(r)
	_, cookie := r.Cookie(loginCookie)
	switch {
	case guard.Verified(who.state):
		o.By = guard.Name(who.state.PeerCertificates[0])
	case !s.cfg.Guard.Token.IsZero() && (r.Header.Get("Authorization") != "" || cookie == nil):
		o.By = "token"
	}
	return o
}
