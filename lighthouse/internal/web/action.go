package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// action is what an operator does to a replica.
type action func(ctx context.Context, job string, id quorum.ReplicaID, o Order) error

// serveAction carries out an operator's button of the paths without a version, which take
// no reason, and answers with the code done. Browsers send Origin with every POST, and
// another site's page cannot forge it.
func (s *Server) serveAction(act action, done int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := sameOrigin(r)
		var id quorum.ReplicaID
		if err == nil {
			id, err = wire.CheckKnownID(r.PathValue("replica"))
		}
		if err == nil {
			o := s.asker(r)
			o.Reason = "asked for on the status page"
			err = act(r.Context(), r.PathValue("job"), id, o)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		w.WriteHeader(done)
	}
}

// apiAction is serveAction of the API: there is a reason.
func (s *Server) apiAction(act action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body api.Action
		o, err := s.order(w, r, &body, &body.Reason)
		if err == nil {
			err = s.knownJob(r)
		}
		var id quorum.ReplicaID
		if err == nil {
			id, err = wire.CheckKnownID(r.PathValue("replica"))
		}
		if err == nil {
			if err = act(r.Context(), r.PathValue("job"), id, o); errors.Is(err, quorum.ErrUnknown) {
				err = failure{http.StatusNotFound, "unknown replica", err}
			}
		}
		done(w, r, err)
	}
}

func (s *Server) serveConfigure(w http.ResponseWriter, r *http.Request) {
	var body api.RulesChange
	o, err := s.order(w, r, &body, &body.Reason)
	if err == nil {
		err = s.knownJob(r)
	}
	if err == nil && body == (api.RulesChange{Reason: body.Reason}) {
		err = failf(http.StatusBadRequest, "invalid", "the body changes no rule: want one of min_replicas, max_replicas, join_timeout_ms, "+
			"heartbeat_timeout_ms, suspect_after_ms, grace_ms, stuck_after_ms, evict_stuck, probation_after, reset")
	}
	if err == nil {
		err = s.actions.Configure(r.Context(), r.PathValue("job"), body, o)
	}
	done(w, r, err)
}

func (s *Server) serveScale(w http.ResponseWriter, r *http.Request) {
	var body api.Scale
	o, err := s.order(w, r, &body, &body.Reason)
	if err == nil {
		err = s.knownJob(r)
	}
	if err == nil && body.Replicas == nil {
		err = invalid("replicas is missing, want how many, or 0 to take the number back")
	}
	if err == nil {
		err = s.actions.Scale(r.Context(), r.PathValue("job"), *body.Replicas, o)
	}
	done(w, r, err)
}

func (s *Server) serveTransfer(w http.ResponseWriter, r *http.Request) {
	var body api.Transfer
	o, err := s.order(w, r, &body, &body.Reason)
	if err == nil {
		err = s.actions.Transfer(r.Context(), body.To, o)
	}
	if f := failureOf(err); err != nil && f.status == http.StatusNotFound {
		err = failure{f.status, "unknown server", f.err}
	}
	done(w, r, err)
}

// done answers an action.
func done(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// knownJob says whether there is the job of the request's path.
func (s *Server) knownJob(r *http.Request) error {
	name, err := wire.CheckJob(r.PathValue("job"))
	if err != nil {
		return err
	}
	switch known, err := s.lighthouse.Known(r.Context(), name); {
	case err != nil:
		return err
	case !known:
		return unknownJob(name)
	}
	return nil
}

func unknownJob(name string) failure {
	return failf(http.StatusNotFound, "unknown job", "no job is called %q; GET /api/v1/status lists them", name)
}

// errOtherSite refuses what a browser sends for another site.
func errOtherSite(header, value string) error {
	return failf(http.StatusForbidden, "other site", "request comes from another site (%s: %s)", header, guard.Shown(value))
}

// sameOrigin refuses a request that a browser sends for another site. Programs
// send no Origin.
func sameOrigin(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return errOtherSite("Sec-Fetch-Site", site)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
		return errOtherSite("Origin", origin)
	}
	return nil
}

// NoUndo says why no drain of a replica is taken back, and what to do.
func NoUndo(job quorum.Status, id quorum.ReplicaID) string {
	for _, r := range job.Replicas {
		switch {
		case r.ReplicaID != id:
		case r.State == quorum.StateDraining && !r.Member:
			return "it was in no quorum, and its join is refused: start it again when it has gone"
		case r.State == quorum.StateDraining, r.State == quorum.StateDrained:
			return "the others go on without it: start it again when it has gone"
		case r.State == quorum.StateEvicted:
			return "it was evicted, and has ended: start it again, a new incarnation is let in"
		default:
			return fmt.Sprintf("it is %s: no drain of it is under way", r.State)
		}
	}
	return "it is gone"
}
