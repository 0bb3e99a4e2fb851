package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/live"
	"github.com/skerry-ft/skerry/quorum"
)

// pathAPI is below what errors are answered as JSON.
const pathAPI = "/api/"

// failure is an error with the status and the code that it is answered with.
type failure struct {
	status int
	code   string
	err    error
}

// Error is the cause's.
func (f failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f failure) Unwrap() error { return f.err }

func failf(status int, code, format string, args ...any) failure {
	return failure{status, code, fmt.Errorf(format, args...)}
}

// failureOf says how an error is answered.
func failureOf(err error) failure {
	if f, ok := errors.AsType[failure](err); ok {
		return f
	}
	switch {
	case errors.Is(err, errMisdirected):
		return failure{http.StatusMisdirectedRequest, "misdirected", err}
	case errors.Is(err, guard.ErrDenied):
		return failure{http.StatusUnauthorized, "unauthorized", err}
	case errors.Is(err, guard.ErrTooMany):
		return failure{http.StatusServiceUnavailable, "busy", err}
	case errors.Is(err, quorum.ErrNoDrain):
		return failure{http.StatusConflict, "conflict", err}
	case errors.Is(err, quorum.ErrUnknown):
		return failure{http.StatusNotFound, "not found", err}
	case errors.Is(err, quorum.ErrInvalid):
		return failure{http.StatusBadRequest, "invalid", err}
	case errors.Is(err, wire.ErrNoLeader), errors.Is(wire.FromStatus(err), wire.ErrNoLeader), errors.Is(err, live.ErrStopped):
		return failure{http.StatusServiceUnavailable, "no leader", err}
	}
	said := errors.New(status.Convert(err).Message())
	switch status.Code(err) {
	case codes.NotFound:
		return failure{http.StatusNotFound, "not found", said}
	case codes.FailedPrecondition: // its manager takes no kills, or the cluster no such leader
		return failure{http.StatusConflict, "conflict", said}
	}
	return failure{http.StatusBadGateway, "unreachable", said}
}

// fail answers with an error: in JSON below pathAPI, else in a line.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if !strings.HasPrefix(r.URL.Path, pathAPI) {
		http.Error(w, f.Error(), f.status)
		return
	}
	if f.status == http.StatusBadGateway {
		f.status = http.StatusServiceUnavailable // the API's one word for "not now"
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(f.status)
	// Which package an error is of is nothing to those who ask.
	text := strings.TrimPrefix(f.Error(), "quorum: ")
	_ = json.NewEncoder(w).Encode(api.Failure{Error: api.Problem{Code: f.code, Message: text}}) // a reader who has gone needs no error
}
