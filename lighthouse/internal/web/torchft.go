package web

import (
	"context"
	_ "embed" // the fragment
	"html/template"
	"net/http"
	"net/url"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// The paths of torchft's own dashboard, for the scripts that know them.
const (
	pathTorchftStatus = "/status"
	pathTorchftKill   = "/replica/{replica}/kill"
)

//go:embed torchft_status.html
var torchftStatusHTML string

// torchftStatus is the fragment of HTML that torchft's dashboard polls.
var torchftStatus = template.Must(template.New("status").Funcs(template.FuncMap{"path": url.PathEscape}).Parse(torchftStatusHTML))

// serveTorchftStatus shows the jobs as a fragment of HTML, as torchft's dashboard
// does. /status.json is the one to read by program.
func (s *Server) serveTorchftStatus(w http.ResponseWriter, r *http.Request) {
	st, err := s.lighthouse.Status(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	announceHTML(w, "default-src 'none'; form-action 'self'; frame-ancestors 'none'")
	_ = torchftStatus.Execute(w, st) // a reader who has gone needs no error
}

// killTorchft is kill for torchft's path, which names no job: it is the one that
// the replica's id begins with, if there is such a job, or the default.
func (s *Server) killTorchft(ctx context.Context, _ string, id quorum.ReplicaID, o Order) error {
	name, _ := wire.JobPrefix(id)
	known, err := s.lighthouse.Known(ctx, name)
	if err != nil {
		return err
	}
	if !known {
		name = wire.DefaultJob
	}
	return s.actions.Kill(ctx, name, id, o)
}
