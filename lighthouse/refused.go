package lighthouse

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
)

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
	s.refused.Note(time.Now(), id, reason)
}
