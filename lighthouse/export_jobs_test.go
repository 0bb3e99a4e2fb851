package lighthouse

import (
	"context"
	"errors"
	"time"
)

// ForgetIdle makes the leader look for idle jobs as it does by itself, as if they
// had been idle for longer.
func (s *Server) ForgetIdle(ctx context.Context, longer time.Duration) error {
	r := s.leading()
	if r == nil {
		return errNotLeader
	}
	var errs error
	for _, j := range r.all() {
		err := r.forgetIfIdle(ctx, j)
		if err == nil {
			err = j.do(ctx, func(time.Time) {
				if !j.idleSince.IsZero() {
					j.idleSince = j.idleSince.Add(-longer)
				}
			})
		}
		if err != nil && !errors.Is(err, errNotLeader) { // forgotten in this moment
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
