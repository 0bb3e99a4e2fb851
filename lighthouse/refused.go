package lighthouse

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// maxRefused bounds the refused joins that are shown.
const maxRefused = 32

// refusals are the newest refused joins, each reason of a replica once. The zero
// value is ready, and safe for concurrent use.
type refusals struct {
	mu  sync.Mutex
	all []api.RefusedJoin // newest last
}

// note keeps a refusal.
func (r *refusals) note(now time.Time, id, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := api.RefusedJoin{ReplicaID: id, Reason: reason}
	if at := slices.IndexFunc(r.all, func(o api.RefusedJoin) bool { return o.ReplicaID == id && o.Reason == reason }); at >= 0 {
		one.Times = r.all[at].Times
		r.all = slices.Delete(r.all, at, at+1)
	}
	one.AtMs = now.UnixMilli()
	one.Times++
	r.all = append(r.all, one)
	r.all = r.all[max(len(r.all)-maxRefused, 0):]
}

// list returns them, newest first.
func (r *refusals) list() []api.RefusedJoin {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.Reverse(all)
	return all
}

// noteRefused tells an operator of a join that was refused: by a line of the log, of
// which a sample is written, and in the status. An error that says to come again is
// none.
func (s *Server) noteRefused(id string, err error) {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return
	}
	id, reason := guard.Shown(id), wire.Text(status.Convert(err).Message())
	s.sampled.Warn().Str(logkey.ReplicaID, id).Str(logkey.Reason, reason).Msg("join refused")
	s.refused.note(time.Now(), id, reason)
}
