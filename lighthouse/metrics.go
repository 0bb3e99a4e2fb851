package lighthouse

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/internal/metrics"
	"github.com/skerry-ft/skerry/quorum"
)

// newMetrics makes the server's metrics, which read it when they are scraped.
func (s *Server) newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Source{
		Version:          s.cfg.Version,
		LogLeftOut:       func() uint64 { return s.sampler.LeftOut() },
		CertificateUntil: func() float64 { return s.guard.UntilSeconds() },
		Sessions:         s.sessions.Load,
		Leads:            func() bool { return s.leading() != nil },
		Jobs:             s.jobs,
		Known: func(job string) bool {
			l := s.cluster.Ledger()
			return l != nil && l.Has(job)
		},
		Raft: func() (metrics.Raft, bool) {
			l := s.cluster.Ledger()
			if l == nil {
				return metrics.Raft{}, false
			}
			return metrics.Raft(l.Progress()), true
		},
	})
}

// jobs reads the jobs of this server's leadership, if it has one. A job that does not
// answer before ctx ends is left out.
func (s *Server) jobs(ctx context.Context) (all []quorum.Status) {
	lead := s.leading()
	if lead == nil {
		return nil
	}
	for _, j := range lead.all() {
		var st quorum.Status
		if j.do(ctx, func(now time.Time) { st = j.machine.Status(now) }) == nil {
			all = append(all, st)
		}
	}
	return all
}
