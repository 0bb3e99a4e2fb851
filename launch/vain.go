package launch

import (
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
)

// vain is how a launcher without a share in the job waits: not without end where the job, or the
// lighthouse, is no longer there. It is owned by one goroutine.
type vain struct {
	waits bool      // the log says so
	since time.Time // there is nothing to wait for since then; zero: there is
}

// over takes an answer, and says whether there has been nothing to wait for so long that the
// launcher is to end.
func (v *vain) over(c *Config, idle bool, err error) bool {
	if !v.waits {
		v.waits = true
		c.Log.Info().Str(logkey.Job, c.Job).Msg("this host has no share in the job: it waits for one, or for the end of the job")
	}
	gone := idle || err != nil
	switch {
	case !gone:
		v.since = time.Time{}
		return false
	case v.since.IsZero():
		v.since = time.Now()
		c.Log.Info().Str(logkey.Job, c.Job).Bool("idle", idle).Dur("limit", c.WaitLimit).Err(err).
			Msg("no replica of the job is there, or no lighthouse that knows it: a host without a share waits no longer than the limit")
	}
	if time.Since(v.since) < c.WaitLimit {
		return false
	}
	c.Log.Info().Str(logkey.Job, c.Job).Err(err).Msg("this host has no share in the job, and has waited in vain: it ends")
	return true
}
