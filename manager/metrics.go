package manager

import "github.com/skerry-ft/skerry/manager/internal/metrics"

// newMetrics makes the metrics, and registers them with Config.Registry, if there is one.
func newMetrics(m *Manager) *metrics.Metrics {
	all, err := metrics.New(metrics.Source{
		Job: m.cfg.Job, Replica: m.cfg.ReplicaID,
		Counts: func() metrics.Counts { return metrics.Counts(m.Stats()) },
		Step:   m.Step, Participants: m.NumParticipants, Participating: m.IsParticipating, Healing: m.IsHealing,
		LogLeftOut:       func() uint64 { return m.sampler.LeftOut() },
		CertificateUntil: m.guard.UntilSeconds,
	}, m.cfg.Registry)
	if err != nil {
		m.log.Warn().Err(err).Msg("metrics not registered")
	}
	return all
}

// told takes in an event, for the metrics and for the caller.
func (m *Manager) told(e Event) {
	switch e := e.(type) {
	case QuorumFormed:
		m.metrics.QuorumFormed(e.Took)
	case Configured:
		m.metrics.Configured(e.Took)
	case GroupBroken:
		m.metrics.QuorumFell()
	case PeerLost:
		m.metrics.PeerLost()
	case HealStarted:
		m.metrics.HealStarted()
	case HealDone:
		m.metrics.HealDone(e.Took, e.Err)
	case StateCopied:
		m.metrics.Copied(e.Took)
	case LighthouseFound:
		m.metrics.Connected(true)
	case LighthouseLost:
		m.metrics.Connected(false)
	}
	if m.cfg.OnEvent != nil {
		m.cfg.OnEvent(e)
	}
}

// spentOn is what a trainer's time in an attempt was for.
func spentOn(committed, participated bool) metrics.Kind {
	switch {
	case !committed:
		return metrics.Redone
	case participated:
		return metrics.Useful
	}
	return metrics.Unused
}
