package lighthouse

import (
	"context"
	"errors"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// ForgetIdle makes the leader look for idle jobs as it does by itself, as if they
// had been idle for longer.
func (s *Server) ForgetIdle(ctx context.Context, longer time.Duration) error {
	lead := s.leading()
	if lead == nil {
		return cluster.ErrNotLeader
	}
	var errs error
	for _, j := range lead.all() {
		err := lead.forgetIfIdle(ctx, j)
		if err == nil {
			err = j.do(ctx, func(time.Time) {
				if !j.idle.Since.IsZero() {
					j.idle.Since = j.idle.Since.Add(-longer)
				}
			})
		}
		if err != nil && !errors.Is(err, cluster.ErrNotLeader) { // forgotten in this moment
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
