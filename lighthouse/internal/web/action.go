package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

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
